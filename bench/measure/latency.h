// How long after its commit an event reaches a consumer, beside the same without a database.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/support/samples.h"
#include "bench/support/servers.h"

namespace outbox::bench
{

struct LatencyOptions
{
    int rate = 200; // events a second, of all clients together
    int clients = 4;
    int seconds = 10;
};

// In milliseconds, one entry for each round.
struct Latencies
{
    std::vector<std::vector<double>> rounds;

    // The rounds' percentiles: their median, lowest and highest.
    Spread at(double fraction) const;
};

struct LatencyResult
{
    LatencyOptions options;
    Latencies floor;        // from just before produce until the consumer has the record
    Latencies commit;       // a transaction with one plain INSERT: COMMIT until its answer
    Latencies relay;        // from just before COMMIT until the consumer has the record
    Latencies relay_commit; // the COMMIT of these transactions

    // How many times the floor an event takes beyond one commit.
    double times_floor() const;
};

LatencyResult measure_latency(Servers &servers, const LatencyOptions &options, int rounds);

nlohmann::ordered_json to_json(const LatencyResult &result);

} // namespace outbox::bench
