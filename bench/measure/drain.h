// How fast a backlog gets to Kafka, and what that takes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/support/servers.h"
#include "drain_watch.h"

namespace outbox::bench
{

// What people would otherwise use.
struct DrainPeer
{
    std::string name;
    std::string title;
    std::string settings;       // that matter for speed
    std::vector<DrainRun> runs; // one entry for each round
};

struct DrainResult
{
    std::vector<DrainRun> bare;  // one entry for each round
    std::vector<DrainRun> relay; // the same
    std::vector<DrainPeer> peers;
};

struct DrainOptions
{
    int64_t events = 1000000;
    double peer_seconds = 120;        // after which a peer is measured by what it has done
    std::vector<std::string> peers;   // "polling", "debezium"
    std::vector<int> polling_batches; // rows of a transaction; empty: the best, see there
    std::map<std::string, std::string> debezium; // properties other than its own
};

// The word "go" is the reload that gives the relay its brokers, or the start of the bare producer's
// process: what either needs to get going counts. The broker shows the end.
DrainResult measure_drain(Servers &servers, const DrainOptions &options, int rounds);

// Commits a backlog to outbox.events.
void fill_events(const Database &database, int64_t events);

// The relay's way through the backlog of so many events that its database has.
// `at_work` gets its process when its first record is in Kafka.
DrainRun drain_relay(Servers &servers, Database &database, int64_t events,
                     const std::function<void(pid_t)> &at_work = {});

// The bare producer's way through as many events.
DrainRun drain_bare(Servers &servers, const Topic &topic, int64_t events,
                    const std::function<void(pid_t)> &at_work = {});

nlohmann::ordered_json to_json(const DrainResult &result);

} // namespace outbox::bench
