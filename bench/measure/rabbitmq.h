// How fast a backlog gets to RabbitMQ, beside a bare librabbitmq publisher.
#pragma once

#include <cstdint>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/support/servers.h"

namespace outbox::bench
{

struct RabbitMqResult
{
    int64_t events = 0;
    // Events a second, one for each round.
    std::vector<double> bare;
    std::vector<double> relay;
};

// Both have the same number of unconfirmed messages, the relay's default. What either needs to get
// going counts.
RabbitMqResult measure_rabbitmq(Servers &servers, int64_t events, int rounds);

nlohmann::ordered_json to_json(const RabbitMqResult &result);

} // namespace outbox::bench
