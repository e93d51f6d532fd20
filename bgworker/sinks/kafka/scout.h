// Asks Kafka about topics without making the caller wait.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <pthread.h>
#include <semaphore.h>
#include <string>
#include <vector>

struct rd_kafka_s;
struct rd_kafka_topic_s;

namespace outbox::kafka
{

// librdkafka answers a question about a topic only to a waiting caller, so a thread asks. By then
// the client itself has read the answer, too. One question at a time.
//
//     idle ── ask() ──▶ asking ── Kafka's answer, or none in time ──▶ answered ── take() ──▶ idle
class Scout
{
public:
    struct Answer
    {
        std::string topic;
        int error = 0; // Kafka's
        int partitions = 0;
    };
    // All topics that Kafka has, by std::hash<std::string_view>, in order.
    struct List
    {
        bool has_come = false;
        std::vector<std::size_t> hashes;
        std::int64_t took_ms = 0;
    };

    Scout() = default;
    ~Scout()
    {
        request_stop();
        join();
    }
    Scout(const Scout &) = delete;
    Scout &operator=(const Scout &) = delete;

    // Starts the thread, with all signals blocked. Returns false when the system has none to give.
    bool start(rd_kafka_s *client, int wake_fd) noexcept;

    bool is_idle() const noexcept { return state_ == State::idle; }

    // Asks about these topics one by one, or with none about all that the client knows, at once.
    // They must live until the answer, or until join(). Needs is_idle(). Throws std::bad_alloc.
    void ask(std::vector<rd_kafka_topic_s *> topics);

    // Asks which topics Kafka has at all. Needs is_idle().
    void ask_for_list() noexcept;

    // Returns whether there is an answer; what Kafka did not say in time is not in it.
    bool take(std::vector<Answer> &answers, List &list) noexcept;

    // The thread ends after the question under way, within a few seconds, and leaves the descriptor
    // alone from now on.
    void request_stop() noexcept;
    void join() noexcept;

private:
    enum class State
    {
        idle,
        asking,
        answered
    };

    static void *run(void *scout) noexcept;
    void wake_caller() noexcept;
    bool ask_one(rd_kafka_topic_s *topic) noexcept;
    void ask_about_topics() noexcept;
    void read_list() noexcept;

    rd_kafka_s *client_ = nullptr;
    std::mutex wake_mutex_;
    int wake_fd_ = -1;
    bool started_ = false;
    pthread_t thread_ = {};
    sem_t wake_ = {};
    std::atomic<State> state_ = State::idle; // hands what follows to and fro
    std::atomic<bool> stopping_ = false;
    std::vector<rd_kafka_topic_s *> topics_;
    std::vector<Answer> answers_;
    bool for_list_ = false;
    List list_;
    int timeout_ms_ = 0;
};

} // namespace outbox::kafka
