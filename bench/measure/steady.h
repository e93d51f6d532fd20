// What tables, vacuum and a relay come to while events are written and published at a steady rate.
#pragma once

#include <map>
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
    int rate = 10000;                            // events a second
    int samples = 20;                            // over the time
    std::map<std::string, std::string> debezium; // as in DrainOptions
};

// At one moment.
struct SteadySample
{
    double seconds = 0; // since the beginning
    long table_bytes = 0;
    long index_bytes = 0;
    long dead_tuples = 0; // as the statistics have them, which are about a second old
    long autovacuums = 0;
    long wal_kept = 0; // bytes that a replication slot holds back
    long behind = 0;   // events written and not yet in Kafka
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
    SteadyRun run;
};

// Each takes as long as the options say, so that each can have a sitting of its own. Our relay:
SteadyResult measure_steady(Servers &servers, const SteadyOptions &options);

// The classic table, whose rows a polling relay marks.
SteadyResult measure_steady_polling(Servers &servers, const SteadyOptions &options);

// The classic table as Debezium's documentation has it: a row is deleted by the transaction that
// inserted it, as Debezium reads it from the WAL.
SteadyResult measure_steady_debezium(Servers &servers, const SteadyOptions &options);

nlohmann::ordered_json to_json(const SteadyResult &result);

} // namespace outbox::bench
