// How fast a backlog gets to Kafka, and what that takes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/support/process_usage.h"
#include "bench/support/samples.h"
#include "bench/support/servers.h"

namespace outbox::bench
{

// One contender's way through one backlog.
struct DrainRun
{
    int64_t events = 0;
    double first_seconds = 0; // from the word "go" until the first record is in Kafka
    double seconds = 0;       // from the word "go" until all are
    double cpu_seconds = 0;   // of the contender's process
    double broker_cpu_seconds = 0;
    double other_cpu_seconds = 0; // of everything else on the machine, the watching included
    MemoryUse memory;

    double rate() const { return static_cast<double>(events) / seconds; }
};

struct DrainResult
{
    std::vector<DrainRun> bare;  // one entry for each round
    std::vector<DrainRun> relay; // the same
    DrainRun relay_small;        // a tenth of the events, for the memory

    Spread bare_rate() const;
    Spread relay_rate() const;
    double ratio() const { return relay_rate().median / bare_rate().median; }
};

// The word "go" is the reload that tells the relay of Kafka, or the start of the bare producer's
// process: what either needs to get going counts. The end is told by the broker.
DrainResult measure_drain(Servers &servers, int64_t events, int rounds);

nlohmann::ordered_json to_json(const DrainResult &result);

} // namespace outbox::bench
