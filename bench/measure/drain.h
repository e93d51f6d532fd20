// How fast a backlog gets to Kafka, and what that takes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/support/samples.h"
#include "bench/support/servers.h"
#include "drain_watch.h"

namespace outbox::bench
{

// What people would otherwise use.
struct DrainPeer
{
    std::string name;
    std::string title;
    std::vector<DrainRun> runs; // one entry for each round
};

struct DrainResult
{
    std::vector<DrainRun> bare;  // one entry for each round
    std::vector<DrainRun> relay; // the same
    DrainRun relay_small;        // a tenth of the events, for the memory
    std::vector<DrainPeer> peers;
    std::vector<DrainRun> growth; // the relay's, one for each of the options' backlogs

    Spread bare_rate() const;
    Spread relay_rate() const;
    double ratio() const { return relay_rate().median / bare_rate().median; }

    // Null when it was not measured.
    const DrainPeer *peer(const std::string &name) const;
};

struct DrainOptions
{
    int64_t events = 1000000;
    std::vector<int64_t> backlogs;    // events that the relay drains besides, from small to large
    double peer_seconds = 120;        // after which a peer is told by what it has done
    std::vector<std::string> peers;   // "polling", "debezium"
    std::vector<int> polling_batches; // rows of a transaction; empty: the best, see there
    std::map<std::string, std::string> debezium; // properties other than its own
};

// The word "go" is the reload that tells the relay of Kafka, or the start of the bare producer's
// process: what either needs to get going counts. The end is told by the broker.
DrainResult measure_drain(Servers &servers, const DrainOptions &options, int rounds);

nlohmann::ordered_json to_json(const DrainResult &result);

} // namespace outbox::bench
