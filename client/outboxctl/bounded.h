// Work that may take without end, or more stack than there is.
#pragma once

#include <functional>
#include <string>

namespace outbox::ctl
{

struct Bounded
{
    bool done = false;
    std::string text; // what the work returned; or, in words, how it ended instead
};

// Runs `work` in a process of its own, and ends it after so many seconds of computing. What it
// returns may have up to 16 MiB. It shares nothing else with us, and must not use connections.
Bounded run_bounded(const std::function<std::string()> &work, unsigned seconds);

} // namespace outbox::ctl
