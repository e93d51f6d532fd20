// What the application and its server pay for events, beside other ways to write them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/support/samples.h"
#include "bench/support/servers.h"

namespace outbox::bench
{

// Scripts of pgbench that write one event. Its key is of the number n.
constexpr const char *kRandomNumber = "\\set n random(0, 9999)\n";
constexpr const char *kClassicScript =
    "insert into classic_outbox (id, aggregate_type, aggregate_id, type, payload) "
    "values (gen_random_uuid(), :type, 'order-' || :n::text, :event, :payload);\n";
constexpr const char *kPartitionedScript =
    "insert into partitioned_outbox (id, aggregate_type, aggregate_id, type, payload) "
    "values (gen_random_uuid(), :type, 'order-' || :n::text, :event, :payload);\n";
constexpr const char *kEmitScript =
    "select outbox.emit(:type, 'order-' || :n::text, :event, :payload);\n";

struct ApplicationOptions
{
    int clients = 8;
    int seconds = 5;        // of a round of each way, in each query mode
    int wal_events = 10000; // whose WAL is counted
};

// Transactions of pgbench that change a row of the application's, and then write an event in this
// way or none.
struct WriteWay
{
    std::string name;
    std::string title;
    struct Mode
    {
        std::vector<double> rates;            // transactions a second, each round
        std::vector<double> cpu_microseconds; // of the backends for a transaction, each round
    };
    std::map<std::string, Mode> modes;             // by pgbench's query mode
    std::map<std::string, std::vector<double>> ms; // p50, p95, p99, max, each round; if prepared
};

// Bytes of WAL for an event in a transaction of its own, from there until it is published.
// Without full page images, of which there are as many as checkpoints want, and without vacuum.
struct PublishedWal
{
    std::string name;
    std::string title;
    std::vector<double> bytes; // each round
};

struct ApplicationResult
{
    ApplicationOptions options;
    std::vector<WriteWay> ways;
    std::vector<PublishedWal> wal;
};

ApplicationResult measure_application_cost(Servers &servers, const ApplicationOptions &options,
                                           int rounds);

nlohmann::ordered_json to_json(const ApplicationResult &result);

} // namespace outbox::bench
