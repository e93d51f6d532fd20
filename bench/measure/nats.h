// How fast a backlog gets to NATS JetStream, beside a bare libnats publisher.
#pragma once

#include "broker_drain.h"

namespace outbox::bench
{

// Both have the same number of messages that are not acknowledged at most, the relay's default.
// What either needs to get going counts.
BrokerDrain measure_nats(Servers &servers, int64_t events, int rounds);

} // namespace outbox::bench
