// What the person who ran the benchmark gets to see, and what programs read.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/measure/application_cost.h"
#include "bench/measure/drain.h"
#include "bench/measure/idempotency_cost.h"
#include "bench/measure/latency.h"
#include "bench/measure/steady.h"
#include "bench/measure/write_cost.h"

namespace outbox::bench
{

// Everything that one run measured; parts that were not asked for are missing.
struct Results
{
    std::string date;
    std::vector<std::pair<std::string, std::string>> setup; // machine, versions, settings
    std::optional<DrainResult> drain;
    std::vector<LatencyResult> latency; // one entry for each rate
    std::optional<WriteCostResult> write;
    std::optional<ApplicationResult> application;
    std::optional<SteadyResult> steady;
    std::optional<IdempotencyCostResult> idempotency;
};

// The tables, and whether each reach is met.
std::string to_text(const Results &results);

nlohmann::ordered_json to_json(const Results &results);

} // namespace outbox::bench
