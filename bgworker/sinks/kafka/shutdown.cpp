#include "shutdown.h"

#include "bgworker/sinks/signals_blocked.h"
#include "bgworker/sinks/thread_end.h"

#include <librdkafka/rdkafka.h>

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
    if (ends_within(thread, timeout_ms))
        return true;
    pthread_detach(thread);
    return false;
}

} // namespace outbox::kafka
