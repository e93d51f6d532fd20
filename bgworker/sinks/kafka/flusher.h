// Sends what is queued without waiting for a fuller batch.
#pragma once

#include <atomic>
#include <pthread.h>
#include <semaphore.h>

struct rd_kafka_s;

namespace outbox::kafka
{

// librdkafka waits linger.ms for a batch to fill, which a backlog needs and a single event must not
// suffer. Only during rd_kafka_flush() it does not wait; that call blocks, so a thread makes
// it.
class Flusher
{
public:
    Flusher() = default;
    ~Flusher() { stop(); }
    Flusher(const Flusher &) = delete;
    Flusher &operator=(const Flusher &) = delete;

    // Starts the thread, with all signals blocked. Returns false when the system has none to give.
    bool start(rd_kafka_s *client) noexcept;

    // Everything queued before goes out as soon as the connection takes it. Does not wait.
    void send_now() noexcept;

    // Ends the thread, within the time of one flush. To be called before the client is destroyed.
    void stop() noexcept;

private:
    static void *run(void *flusher) noexcept;

    rd_kafka_s *client_ = nullptr;
    pthread_t thread_ = {};
    sem_t wake_ = {};
    std::atomic<bool> wanted_ = false;
    std::atomic<bool> stopping_ = false;
};

} // namespace outbox::kafka
