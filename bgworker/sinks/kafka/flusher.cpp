#include "flusher.h"

#include "bgworker/sinks/signals_blocked.h"

#include <librdkafka/rdkafka.h>

#include <cerrno>

namespace outbox::kafka
{

namespace
{

// What is still queued after that was ready to go, and waits for the broker, not for its batch.
constexpr int kFlushMs = 20;

} // namespace

bool
Flusher::start(rd_kafka_t *client) noexcept
{
    client_ = client;
    wanted_ = false;
    stopping_ = false;
    static_cast<void>(sem_init(&wake_, 0, 0)); // fails only for values out of range
    const SignalsBlocked blocked;
    if (pthread_create(&thread_, nullptr, run, this) == 0)
        return true;
    client_ = nullptr;
    static_cast<void>(sem_destroy(&wake_));
    return false;
}

void
Flusher::send_now() noexcept
{
    // At most one post for each turn of the thread, so the count cannot overflow.
    if (client_ != nullptr && !wanted_.exchange(true))
        static_cast<void>(sem_post(&wake_));
}

void
Flusher::stop() noexcept
{
    if (client_ == nullptr)
        return;
    stopping_ = true;
    static_cast<void>(sem_post(&wake_));
    static_cast<void>(pthread_join(thread_, nullptr));
    static_cast<void>(sem_destroy(&wake_));
    client_ = nullptr;
}

void *
Flusher::run(void *flusher) noexcept
{
    auto &self = *static_cast<Flusher *>(flusher);
    for (;;)
    {
        while (sem_wait(&self.wake_) != 0 && errno == EINTR)
            ;
        if (self.stopping_)
            return nullptr;
        // Before the flush: what is queued from here on may miss it, and asks again.
        self.wanted_ = false;
        // A time-out only says that not all has been acknowledged yet.
        static_cast<void>(rd_kafka_flush(self.client_, kFlushMs));
    }
}

} // namespace outbox::kafka
