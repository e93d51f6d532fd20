// The latency of what people would otherwise use.
#pragma once

#include "latency.h"

namespace outbox::bench
{

// Adds the peers to the results, which are those of options.rates.
void measure_latency_peers(Servers &servers, const LatencyOptions &options, int rounds,
                           std::vector<LatencyResult> &results);

} // namespace outbox::bench
