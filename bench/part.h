// One measurement of the benchmark, which may be taken in a sitting of its own. To add one, write
// it in bench/measure, an entry in bench/parts.cpp, and its tables in scripts/benchmarks-page.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "options.h"

namespace outbox::bench
{

using Json = nlohmann::ordered_json;

class Servers;

struct Part
{
    const char *name;  // on the command line; its figures go to build/bench/<name>.json
    const char *about; // heading of its section
    bool in_whole_run; // else only when it is named

    // Roughly how long it takes, in seconds; printed beforehand.
    double (*estimate)(const Options &);
    Json (*measure)(Servers &, const Options &);
};

} // namespace outbox::bench
