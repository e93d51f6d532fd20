// Whether what we do costs in proportion: backlogs from small to large, more clients, more
// databases.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/support/servers.h"
#include "drain_watch.h"

namespace outbox::bench
{

struct GrowthOptions
{
    std::vector<int64_t> backlogs = {10000, 100000, 1000000}; // events, from small to large
    std::vector<int> clients = {1, 8, 32};
    int client_seconds = 5; // of a round of each way to write, with each number of clients
    std::vector<int> databases = {1, 4, 16};
    int64_t events = 1000000; // that all databases drain together
};

struct BacklogGrowth
{
    int64_t events = 0;
    std::vector<DrainRun> runs; // one for each round; one alone if the backlog is large
    long writer_memory = 0;     // the most that a backend had for itself that emitted it
};

// Transactions of one event by so many clients.
struct ClientGrowth
{
    int clients = 0;
    std::string name;
    std::string title;
    std::vector<double> rates;            // events a second, each round
    std::vector<double> cpu_microseconds; // of the backends for an event, each round
    long backend_memory = 0;              // the most that one had for itself
};

// So many relays, of as many databases, drain a backlog that they share.
struct DatabaseGrowth
{
    int databases = 0;
    std::vector<DrainRun> runs;   // of all relays together, each round
    std::vector<double> idle_cpu; // seconds of all relays in an hour without events, each round
};

struct GrowthResult
{
    GrowthOptions options;
    std::vector<BacklogGrowth> backlogs;
    std::vector<ClientGrowth> clients;
    std::vector<DatabaseGrowth> databases;
};

GrowthResult measure_growth(Servers &servers, const GrowthOptions &options, int rounds);

nlohmann::ordered_json to_json(const GrowthResult &result);

} // namespace outbox::bench
