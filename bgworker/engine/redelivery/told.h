// What was said of a topic lately.
#pragma once

#include "bgworker/engine/clock.h"
#include "bgworker/engine/common/lanes.h"

#include <cstddef>
#include <functional>
#include <string_view>
#include <unordered_map>

namespace outbox
{

// Which topics are refused for which reason, so that each is said once: as long as an outage lasts
// its events are refused again and again, at every attempt and of each partition.
class Told
{
public:
    // It was refused again. Returns whether that is to be said: for this reason it was not, since
    // longer than the longest pause between two attempts. Throws std::bad_alloc.
    bool note(Lane topic, std::string_view reason, Steady now, std::int64_t longest_pause_ms)
    {
        constexpr std::int64_t kQuietMs = 10 * 1000;
        constexpr std::size_t kMost = 4096;
        if (refused_at_.size() >= kMost)
            refused_at_.clear(); // then some are said again
        const auto [at, is_new] =
            refused_at_.try_emplace(topic ^ std::hash<std::string_view>()(reason), now);
        const bool over = has_passed(at->second, now, longest_pause_ms + kQuietMs);
        at->second = now;
        return is_new || over;
    }

private:
    std::unordered_map<std::size_t, Steady> refused_at_;
};

} // namespace outbox
