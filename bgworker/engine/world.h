// All that the engine knows of the world.
#pragma once

#include "clock.h"
#include "deliveries.h"
#include "replays.h"
#include "sink.h"
#include "source.h"
#include "tally.h"

namespace outbox
{

// Must live longer than the engine.
struct World
{
    Source &source;
    Deliveries &deliveries;
    Replays &replays;
    Destination &destination;
    Clock &clock;
    Tally &tally;
};

struct FailurePolicy
{
    int max_attempts = 0; // 0: an event is retried for ever
    bool block = true;    // unless its route says otherwise, later events of its key wait
    std::int64_t backoff_initial_ms = 500;
    std::int64_t backoff_max_ms = 60000;
};

} // namespace outbox
