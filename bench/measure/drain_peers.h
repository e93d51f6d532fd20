// The drain of a backlog by what people would otherwise use.
#pragma once

#include "drain.h"

namespace outbox::bench
{

// Each peer's rounds follow each other. A peer that does not get done in time is told by what it
// has done until then.
std::vector<DrainPeer> measure_drain_peers(Servers &servers, const DrainOptions &options,
                                           int rounds);

} // namespace outbox::bench
