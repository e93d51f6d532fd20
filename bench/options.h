// What the command line says about a run.
#pragma once

#include <string>
#include <vector>

#include "bench/measure/application_cost.h"
#include "bench/measure/drain.h"
#include "bench/measure/growth.h"
#include "bench/measure/latency.h"
#include "bench/measure/steady.h"
#include "bench/measure/webhook.h"
#include "support/pg_cluster.h"
#include "support/tree.h"

namespace outbox::bench
{

struct Options
{
    std::vector<std::string> parts; // names; empty: all that bench/parts.cpp has in a whole run
    bool all = false;               // then also those that it has not
    int rounds = 3;
    int write_events = 50000;
    DrainOptions drain;
    LatencyOptions latency;
    ApplicationOptions application;
    SteadyOptions steady;
    GrowthOptions growth;
    WebhookOptions webhook;
    test::Settings settings;                         // PostgreSQL's
    std::string directory = test::in_build("bench"); // of the figures
};

} // namespace outbox::bench
