// Ends a librdkafka client within a time limit.
#pragma once

#include "topic_handles.h"

#include <memory>

namespace outbox::kafka
{

// Destroys a client, when the questions about its topics have ended. Returns false when that took
// longer than the limit; then it continues in a thread of its own. librdkafka waits for its
// threads, and one of them may sit in a name look-up for as long as the resolver likes.
bool destroy_within(std::unique_ptr<TopicHandles> topics, int timeout_ms) noexcept;

} // namespace outbox::kafka
