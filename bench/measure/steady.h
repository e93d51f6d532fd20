// What tables, vacuum and a relay come to while events are written and published at a steady rate.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/support/process_usage.h"
#include "bench/support/servers.h"

namespace outbox::bench
{

struct SteadyOptions
{
    int seconds = 20;
    int rate = 10000;               // events a second
    int samples = 20;               // over the time
    std::vector<std::string> peers; // as in DrainOptions
};

// At one moment.
struct SteadySample
{
    double seconds = 0; // since the beginning
    long table_bytes = 0;
    long index_bytes = 0;
    long dead_tuples = 0; // as the statistics have them, which are about a second old
    long autovacuums = 0;
    long behind = 0; // events written and not yet in Kafka
    double cpu_seconds = 0;
    MemoryUse memory;
};

struct SteadyRun
{
    std::string name;
    std::string title;
    std::vector<SteadySample> samples;

    long most_dead_tuples() const;
};

struct SteadyResult
{
    SteadyOptions options;
    std::vector<SteadyRun> runs; // the relay's is the first
};

SteadyResult measure_steady(Servers &servers, const SteadyOptions &options);

nlohmann::ordered_json to_json(const SteadyResult &result);

} // namespace outbox::bench
