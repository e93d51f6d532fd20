// What further subscriptions cost: where events are written, on their way, and when nothing
// happens.
#pragma once

#include <map>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/support/meter.h"
#include "bench/support/servers.h"
#include "drain_watch.h"
#include "latency.h"

namespace outbox::bench
{

constexpr int kIdleSubscriptions = 16;

// All relays of a database in which nothing happens.
struct IdleCost
{
    double cores = 0; // processor time of all of them, as a part of one core
    double wal_bytes_per_second = 0;
};

struct SubscriptionsResult
{
    int emitted = 0;
    // By the number of subscriptions besides `default`; one entry for each round.
    std::map<int, std::vector<WriteCost>> emit;
    std::map<int, Way> ways; // of `default`, at 200 events a second
    // The same backlog by `default` and by a subscription, each alone.
    std::vector<DrainRun> of_default;
    std::vector<DrainRun> of_subscription;
    std::vector<IdleCost> idle;
};

SubscriptionsResult measure_subscriptions(Servers &servers, int events, int64_t backlog,
                                          const LatencyOptions &latency, int rounds);

nlohmann::ordered_json to_json(const SubscriptionsResult &result);

} // namespace outbox::bench
