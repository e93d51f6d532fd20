// What it costs to ask how far behind a relay is, while it is far behind: each query of
// monitoring/postgres_exporter.yml, as a role that may monitor and nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace CLI
{
class App;
}

namespace outbox::bench
{

struct MonitoringOptions
{
    int64_t events = 10000000; // the backlog; nothing answers at the broker's address
    int64_t waiting = 1000000; // of them in outbox.deliveries, for the second half
    int rounds = 500;          // how often each query is run
    double limit_ms = 5;       // for p99 of the slowest query; a single run may meet a busy machine
};

struct QueryCost
{
    std::string name;
    double p50_ms = 0;
    double p99_ms = 0;
    double max_ms = 0;
};

// The queries of the file by their names, in its order. Throws when it has none.
std::vector<std::pair<std::string, std::string>> monitoring_queries(const std::string &file_text);

// Prints the costs, and what a backlog takes of disk and of the relay's memory. Whether all queries
// stayed below the limit.
bool measure_monitoring_cost(const MonitoringOptions &options);

// Adds the subcommand "monitoring", which measures as soon as it is parsed and ends the program.
void add_monitoring_cost(CLI::App &app);

} // namespace outbox::bench
