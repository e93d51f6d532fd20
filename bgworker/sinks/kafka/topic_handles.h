// librdkafka's topic objects, by name, and what Kafka says of them.
#pragma once

#include "partitioner.h"
#include "scout.h"
#include "topic_list.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

struct rd_kafka_s;
struct rd_kafka_topic_s;
struct rd_kafka_topic_conf_s;

namespace outbox::kafka
{

// The topic objects of one client. What librdkafka queues for a topic that it knows nothing of, or
// for a partition without a leader, it keeps for as long as that lasts; so callers that must
// not wait for it ask here first.
//
// A topic is
//   unknown   until Kafka has described it: asked for at once, and again after 10, 20, 40 ... ms,
//             as a topic that Kafka makes when it is first asked for is not there at once;
//   usable    from when Kafka named a partition of it;
//   refused   when Kafka has answered for a second, but not so. Asked for again when it is
//             needed, and usable as soon as Kafka says so.
// While Kafka does not answer, what is unknown stays so.
//
// librdkafka forgets no topic that it was asked for, whether Kafka has it or not, and asks about
// all that are missing every second, at a cost that grows with the square of their number: with
// some thousands it does nothing else. So it learns of some hundred missing ones. When it knows
// those, the list of all topics that Kafka has decides: what is on it is usable as ever; what is
// not is refused, and found by a later list when somebody has made it.
class TopicHandles
{
public:
    enum class State : unsigned char
    {
        unknown,
        usable,
        refused
    };

    explicit TopicHandles(rd_kafka_s *client) noexcept : client_(client) {}
    ~TopicHandles() { clear(); }
    TopicHandles(const TopicHandles &) = delete;
    TopicHandles &operator=(const TopicHandles &) = delete;

    // Returns false when the system has no thread to give.
    bool start(int wake_fd) noexcept;
    rd_kafka_s *client() const noexcept { return client_; }

    // Returns the object of a topic, made when first used; nullptr when librdkafka refuses the
    // name. Producing through an object instead of a name makes librdkafka ask for the topic's
    // partitions at once; by name, the first record waits up to a second (its issue 5032). The
    // object stays valid until the next call. May throw std::bad_alloc.
    rd_kafka_topic_s *get(std::string_view name);

    // The same without waiting; the object is null unless the topic is usable. Why
    // one is refused is in *error. May throw std::bad_alloc.
    State look(std::string_view name, rd_kafka_topic_s **object, int *error);

    // Which partition the configured partitioner gives this key; -1: nothing is known of the topic
    // yet, or only librdkafka knows.
    std::int32_t partition_of(std::string_view name, std::string_view key) noexcept;

    // Whether a partition has been without a leader for longer than it takes librdkafka to find the
    // one it has. May throw std::bad_alloc.
    bool lacks_leader(std::string_view name, std::int32_t partition);
    void has_leader(std::string_view name, std::int32_t partition) noexcept;
    // No broker answers: which partitions have a leader is unknown.
    void note_away() noexcept;
    // librdkafka refuses records of a topic that was usable.
    void lost(std::string_view name, int error) noexcept;

    // Reads what Kafka has answered, and asks for what is due. Returns whether a topic has changed.
    // May throw std::bad_alloc.
    bool serve();
    // When serve() is to be called at the latest; -1: when the descriptor is set.
    int serve_within_ms() const noexcept;

    // Ends the questions; clear() waits for the last one.
    void request_stop() noexcept { scout_.request_stop(); }
    // Gives all objects back; must come before the client is destroyed.
    void clear() noexcept;

private:
    struct ObjectDeleter
    {
        void operator()(rd_kafka_topic_s *topic) const noexcept;
    };
    struct ConfigDeleter
    {
        void operator()(rd_kafka_topic_conf_s *config) const noexcept;
    };
    struct Topic
    {
        std::unique_ptr<rd_kafka_topic_s, ObjectDeleter> object;
        State state = State::unknown;
        bool wanted = true; // to be asked for
        bool answered = false;
        bool missing = false; // Kafka's last answer was an error
        int error = 0;
        std::int32_t partitions = 0;       // as Kafka last said
        std::int64_t unknown_since_ms = 0; // by Kafka's own word
        std::int64_t pause_ms = 0;
        std::int64_t ask_at_ms = 0;
        std::int64_t used_at_ms = 0;
        // Partitions that had no leader when last asked, and since when.
        std::vector<std::pair<std::int32_t, std::int64_t>> leaderless;

        // Missing, and not as one that is being made.
        bool is_hopeless() const noexcept { return missing && state != State::unknown; }
    };
    // Keeps the counts right while a topic changes.
    class Counted
    {
    public:
        Counted(TopicHandles &handles, const Topic &topic) noexcept;
        ~Counted();
        Counted(const Counted &) = delete;
        Counted &operator=(const Counted &) = delete;

    private:
        TopicHandles &handles_;
        const Topic &topic_;
    };

    Topic *find(std::string_view name) noexcept;
    Topic *make(std::string_view name);
    void make_room() noexcept;
    State look_up(std::string_view name, int *error) noexcept;
    bool note(const Scout::Answer &answer, std::int64_t now);
    void ask(std::int64_t now);

    rd_kafka_s *const client_;
    std::unique_ptr<rd_kafka_topic_conf_s, ConfigDeleter> config_;
    Partitioner partitioner_;
    // The keys are the names inside the topic objects.
    std::unordered_map<std::string_view, Topic> topics_;
    std::size_t unanswered_ = 0;
    std::size_t wanted_ = 0;
    std::size_t missing_ = 0;
    std::size_t hopeless_ = 0;
    std::size_t lacks_ = 0;      // of partitions
    std::int64_t ask_at_ms_ = 0; // the next look at what is due
    std::int64_t away_at_ms_ = 0;
    bool crowded_ = false; // some could not be made yet
    TopicList list_;
    Scout scout_;
};

} // namespace outbox::kafka
