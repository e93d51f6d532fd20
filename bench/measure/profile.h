// Where the processor time of a drain goes, in the relay's process and in the bare producer's.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/support/servers.h"

namespace outbox::bench
{

// Names and their shares in percent, the largest first.
using Shares = std::vector<std::pair<std::string, double>>;

struct ProfileResult
{
    struct Process
    {
        std::string title;
        Shares threads;
        Shares libraries;
        Shares functions; // "function (library)"
    };
    int64_t events = 0;
    std::vector<Process> processes;
};

// By perf, which must be there.
ProfileResult measure_profile(Servers &servers, int64_t events);

nlohmann::ordered_json to_json(const ProfileResult &result);

} // namespace outbox::bench
