// Time and chance come from outside of the engine: whoever runs it decides on both.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace outbox
{

// The time of day: microseconds since any fixed moment; 0 stands for "never" or "not known". A
// person may set it at any moment, so nothing waits or is paced by it, but what is stored so.
using Time = std::int64_t;

// A moment of the clock that only goes forward, for all pauses, limits and ages. Not the time of
// day, and not to be had from that: so it is a type of its own.
struct Steady
{
    std::int64_t us = 0; // 0: never, or not known

    bool is_never() const noexcept { return us == 0; }
    bool operator==(Steady other) const noexcept { return us == other.us; }
    bool operator<(Steady other) const noexcept { return us < other.us; }
    bool operator>(Steady other) const noexcept { return us > other.us; }
    bool operator<=(Steady other) const noexcept { return us <= other.us; }
    bool operator>=(Steady other) const noexcept { return us >= other.us; }
};

// The same moment by both clocks.
struct Moment
{
    Steady steady;
    Time time = 0;
};

class Clock
{
public:
    virtual ~Clock() = default;
    // The one by which the source gives emitted_at, and in which a row's next attempt is stored.
    virtual Time time_of_day() noexcept = 0;
    virtual Steady steady() noexcept = 0;
    Moment now() noexcept { return {steady(), time_of_day()}; }
    // Any number; decides on the jitter of pauses.
    virtual std::uint64_t random() noexcept = 0;
};

inline Time
plus_ms(Time time, std::int64_t ms) noexcept
{
    return time + ms * 1000;
}

inline Steady
plus_ms(Steady time, std::int64_t ms) noexcept
{
    return {time.us + ms * 1000};
}

// Rounded up; 0 when `to` is not later. Of the time of day for what is stored so.
inline long
ms_between(Time from, Time to) noexcept
{
    if (to <= from)
        return 0;
    const auto us = static_cast<std::uint64_t>(to) - static_cast<std::uint64_t>(from);
    constexpr std::uint64_t kMost = std::numeric_limits<int>::max();
    return static_cast<long>(std::min(us / 1000 + (us % 1000 != 0 ? 1 : 0), kMost));
}

inline long
ms_between(Steady from, Steady to) noexcept
{
    return ms_between(from.us, to.us);
}

inline bool
has_passed(Steady since, Steady now, std::int64_t ms) noexcept
{
    return now.us - since.us >= ms * 1000;
}

} // namespace outbox
