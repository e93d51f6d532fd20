// How long after its commit an event reaches a consumer, beside the same without a database.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/support/process_usage.h"
#include "bench/support/samples.h"
#include "bench/support/servers.h"

namespace outbox::bench
{

struct LatencyOptions
{
    std::vector<int> rates = {200, 2000, 20000}; // events a second, of all clients together
    int clients = 4;
    int seconds = 10;
    std::vector<std::string> peers;              // as in DrainOptions
    std::map<std::string, std::string> debezium; // the same
};

// In milliseconds, one entry for each round.
struct Latencies
{
    std::vector<std::vector<double>> rounds;

    // The rounds' percentiles: their median, lowest and highest.
    Spread at(double fraction) const;
};

// A way from COMMIT to the consumer.
struct Way
{
    Latencies latencies;             // from just before COMMIT until the consumer has the record
    Latencies commits;               // the COMMIT of these transactions
    std::vector<double> cpu_million; // seconds of the process for a million events, each round
    MemoryUse memory;                // of the process
    int missing = 0; // events that did not arrive in time; they count with the time waited for them
};

struct LatencyPeer
{
    std::string name;
    std::string title;
    std::string settings; // that matter for speed
    Way way;
};

struct LatencyResult
{
    int rate = 0;
    int events_each = 1; // in a transaction
    int seconds = 0;
    int clients = 0;
    Latencies floor;      // from just before produce until the consumer has the record
    Latencies one_by_one; // the same by one producer for all, with one request under way
    std::vector<double> bare_cpu_million; // of one producer without a database, as in Way
    Latencies commit;     // a transaction with plain INSERTs: COMMIT until its answer
    Latencies two_writes; // such a transaction, then a producer of the client's own: as in Way
    Way relay;
    std::vector<LatencyPeer> peers;
};

// One result for each rate.
std::vector<LatencyResult> measure_latency(Servers &servers, const LatencyOptions &options,
                                           int rounds);

nlohmann::ordered_json to_json(const LatencyResult &result);

} // namespace outbox::bench
