// What the measurements of brokers besides Kafka have in common.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/support/servers.h"
#include "support/pg.h"

namespace outbox::bench
{

struct BrokerDrain
{
    int64_t events = 0;
    // Events a second, one for each round.
    std::vector<double> bare;
    std::vector<double> relay;
};

// Both are given the number of the round and return events a second.
BrokerDrain measure_broker(const std::string &name, int64_t events, int rounds,
                           const std::function<double(int)> &bare,
                           const std::function<double(int)> &relay);

// Fills a database of this name, lets `create` make a subscription that begins with all of it, and
// returns the seconds until the relay has published that.
double drain_by_subscription(Servers &servers, const std::string &database, int64_t events,
                             const std::function<void(test::Db &)> &create);

nlohmann::ordered_json to_json(const BrokerDrain &result);

} // namespace outbox::bench
