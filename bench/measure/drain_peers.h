// The drain of a backlog by what people would otherwise use.
#pragma once

#include "bench/peers/polling_relay.h"
#include "drain.h"

namespace outbox::bench
{

// Each peer's rounds follow each other. A peer that does not finish in time is measured by what it
// has done until then.
std::vector<DrainPeer> measure_drain_peers(Servers &servers, const DrainOptions &options,
                                           int rounds);

// A polling relay's way through a backlog in a database of this name.
DrainRun drain_polling(Servers &servers, const std::string &name, const PollingOptions &polling,
                       int64_t events, double limit_seconds);

} // namespace outbox::bench
