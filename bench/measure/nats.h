// How fast a backlog gets to NATS JetStream, beside a bare libnats publisher.
#pragma once

#include <cstdint>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/support/servers.h"

namespace outbox::bench
{

struct NatsResult
{
    int64_t events = 0;
    // Events a second, one for each round.
    std::vector<double> bare;
    std::vector<double> relay;
};

// Both have the same number of messages that are not acknowledged at most, the relay's default.
// What either needs to get going counts.
NatsResult measure_nats(Servers &servers, int64_t events, int rounds);

nlohmann::ordered_json to_json(const NatsResult &result);

} // namespace outbox::bench
