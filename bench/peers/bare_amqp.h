// A bare publisher with librabbitmq: what RabbitMQ and the library allow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace outbox::bench
{

// Publishes so many of the benchmark's events, persistent and mandatory, with the properties and
// headers that the relay sends, each key in its turn; at most `window` messages are not confirmed.
// Returns the seconds from its start to the last confirm.
double publish_bare(int port, const std::string &exchange, const std::string &routing_key,
                    int64_t events, std::size_t window);

} // namespace outbox::bench
