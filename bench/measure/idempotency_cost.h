// What it costs a consumer to mark an event as processed.
#pragma once

#include <map>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/support/meter.h"
#include "bench/support/samples.h"
#include "bench/support/servers.h"

namespace outbox::bench
{

// What a call of mark_processed_many() gets, and what a consumer commits at once.
constexpr int kBatchEvents = 500;

// The ways to mark an event.
enum class Marker
{
    kBare,  // INSERT ... ON CONFLICT DO NOTHING into a table like outbox.processed_events, in the
            // server: the next statement is there when one ends
    kMark,  // outbox.mark_processed() in the same way
    kCalls, // outbox.mark_processed() as a consumer calls it, who waits for the answer
    kMany   // outbox.mark_processed_many(), waiting for the answer
};
constexpr Marker kMarkers[] = {Marker::kBare, Marker::kMark, Marker::kCalls, Marker::kMany};

struct IdempotencyCostResult
{
    int events = 0;
    std::map<Marker, std::vector<WriteCost>> rounds;
};

IdempotencyCostResult measure_idempotency_cost(Servers &servers, int events, int rounds);

nlohmann::ordered_json to_json(const IdempotencyCostResult &result);

} // namespace outbox::bench
