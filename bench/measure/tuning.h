// Which settings are the best for the peers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "drain_watch.h"
#include "latency.h"

namespace outbox::bench
{

struct TunedDebezium
{
    std::string settings; // that differ from candidate to candidate
    std::vector<DrainRun> drains;
    Latencies latency;
};

struct TunedPolling
{
    int workers = 1;
    int batch = 0;
    DrainRun drain;
};

struct TuningResult
{
    int64_t debezium_events = 0; // of a drain
    int64_t polling_events = 0;
    int rate = 0; // events a second, of the latency
    int seconds = 0;
    std::vector<TunedDebezium> debezium;
    std::vector<TunedPolling> polling;
};

// Of "polling" and "debezium", those that are listed.
TuningResult measure_tuning(Servers &servers, const std::vector<std::string> &peers);

nlohmann::ordered_json to_json(const TuningResult &result);

} // namespace outbox::bench
