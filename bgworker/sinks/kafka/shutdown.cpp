#include "shutdown.h"

#include "signals_blocked.h"

#include <librdkafka/rdkafka.h>

#include <ctime>

namespace outbox::kafka
{

namespace
{

void *
destroy(void *argument) noexcept
{
    const std::unique_ptr<TopicHandles> topics(static_cast<TopicHandles *>(argument));
    topics->clear();
    rd_kafka_destroy(topics->client());
    return nullptr;
}

timespec
deadline_after(int timeout_ms) noexcept
{
    constexpr long kSecond = 1000L * 1000 * 1000;
    timespec deadline;
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += timeout_ms / 1000;
    deadline.tv_nsec += timeout_ms % 1000 * 1000L * 1000;
    if (deadline.tv_nsec >= kSecond)
    {
        deadline.tv_sec++;
        deadline.tv_nsec -= kSecond;
    }
    return deadline;
}

} // namespace

bool
destroy_within(std::unique_ptr<TopicHandles> topics, int timeout_ms) noexcept
{
    const SignalsBlocked blocked;
    pthread_t thread;
    TopicHandles *ending = topics.release();
    if (pthread_create(&thread, nullptr, destroy, ending) != 0)
    {
        destroy(ending);
        return true;
    }
    const timespec deadline = deadline_after(timeout_ms);
    if (pthread_clockjoin_np(thread, nullptr, CLOCK_MONOTONIC, &deadline) == 0)
        return true;
    pthread_detach(thread);
    return false;
}

} // namespace outbox::kafka
