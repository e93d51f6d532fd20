// How fast a backlog gets to RabbitMQ, beside a bare librabbitmq publisher.
#pragma once

#include "broker_drain.h"

namespace outbox::bench
{

// Both have the same number of unconfirmed messages, the relay's default. What either needs to get
// going counts.
BrokerDrain measure_rabbitmq(Servers &servers, int64_t events, int rounds);

} // namespace outbox::bench
