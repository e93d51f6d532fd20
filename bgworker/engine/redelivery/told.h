// What was said in the log lately.
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

private:
    std::unordered_map<std::size_t, Steady> refused_at_;
};

// Of what there may be thousands so many an hour are named in the log, and then it is said that
// there are more.
class NamedAnHour
{
public:
    enum class Say : unsigned char
    {
        one,
        more, // that there are others, too
        nothing
    };

    static constexpr int kMost = 100;

    Say next(Steady now) noexcept
    {
        constexpr std::int64_t kHourMs = 3600L * 1000;
        if (named_ == 0 || has_passed(since_, now, kHourMs))
        {
            since_ = now;
            named_ = 0;
        }
        if (named_ > kMost)
            return Say::nothing;
        named_++;
        return named_ <= kMost ? Say::one : Say::more;
    }

private:
    Steady since_;
    int named_ = 0;
};

} // namespace outbox
