// Ends a librdkafka client within a time limit.
#pragma once

struct rd_kafka_s;

namespace outbox::kafka
{

// Destroys the client. Returns false when that took longer than the limit; then it goes on in a
// thread of its own. librdkafka waits for its threads, and one of them may sit in a name look-up
// for as long as the resolver likes.
bool destroy_within(rd_kafka_s *client, int timeout_ms) noexcept;

} // namespace outbox::kafka
