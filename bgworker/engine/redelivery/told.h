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
        constexpr std::int64_t kQuietMs = 10L * 1000;
        constexpr std::size_t kMost = 4096;
        if (refused_at_.size() >= kMost)
            refused_at_.clear(); // then some are said again
        const auto [at, is_new] =
            refused_at_.try_emplace(topic ^ std::hash<std::string_view>()(reason), now);
        const bool over = has_passed(at->second, now, longest_pause_ms + kQuietMs);
        at->second = now;
        return is_new || over;
    }

    enum class Say : unsigned char
    {
        topic,
        more, // that others are refused, too
        nothing
    };

    // How that is said: so many topics an hour are named, as there may be thousands.
    Say how(Steady now) noexcept
    {
        constexpr std::int64_t kHourMs = 3600L * 1000;
        if (named_ == 0 || has_passed(named_since_, now, kHourMs))
        {
            named_since_ = now;
            named_ = 0;
        }
        if (named_ > kMostNamed)
            return Say::nothing;
        named_++;
        return named_ <= kMostNamed ? Say::topic : Say::more;
    }

    static constexpr int kMostNamed = 100; // an hour

private:
    std::unordered_map<std::size_t, Steady> refused_at_;
    Steady named_since_;
    int named_ = 0;
};

} // namespace outbox
