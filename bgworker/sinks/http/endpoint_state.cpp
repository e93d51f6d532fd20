#include "endpoint_state.h"

#include <algorithm>

namespace outbox::http
{

EndpointState::EndpointState(const EndpointLimits &limits, std::int64_t now_us) noexcept
    : limits_(limits)
{
    backoff_.configure(limits.backoff_initial_ms, limits.backoff_max_ms);
    if (limits.rate > 0)
        bucket_.configure(limits.rate, now_us);
}

int
EndpointState::may_start(std::int64_t now_us) noexcept
{
    if (closed_ || now_us < until_us_)
        return 0;
    int free = (away_ ? 1 : window_) - running_;
    if (limits_.rate > 0)
        free = static_cast<int>(std::min<std::int64_t>(free, bucket_.available(now_us)));
    return std::max(free, 0);
}

std::int64_t
EndpointState::due(std::int64_t now_us) noexcept
{
    if (closed_)
        return 0;
    if (now_us < until_us_)
        return until_us_;
    if (limits_.rate > 0 && bucket_.available(now_us) <= 0)
        return now_us + std::max<std::int64_t>(bucket_.us_until_more(now_us), 1000);
    return 0;
}

std::uint64_t
EndpointState::started() noexcept
{
    running_++;
    if (limits_.rate > 0)
        bucket_.take(1);
    return epoch_;
}

void
EndpointState::note(int &counter) noexcept
{
    constexpr int kRemembered = 128;
    counter++;
    if (well_ + ill_ < kRemembered)
        return;
    well_ /= 2;
    ill_ /= 2;
}

bool
EndpointState::answered(bool delivered) noexcept
{
    const bool ends = away_;
    note(well_);
    last_answered_ = true;
    troubles_ = 0;
    backoff_.succeed();
    if (away_)
        window_ = 1;
    away_ = false;
    window_ = std::min(window_ + 1, limits_.requests);
    if (delivered)
        served_++;
    return ends;
}

std::int64_t
EndpointState::pause(std::int64_t ms, std::int64_t now_us) noexcept
{
    away_ = true;
    troubles_ = 0;
    epoch_++;
    until_us_ = std::max(until_us_, now_us + ms * 1000);
    return (until_us_ - now_us) / 1000;
}

std::int64_t
EndpointState::unreachable(std::uint64_t started, std::int64_t now_us,
                           std::uint64_t random) noexcept
{
    if (started != epoch_)
        return -1;
    note(ill_);
    last_answered_ = false;
    return pause(backoff_.fail(random), now_us);
}

std::int64_t
EndpointState::busy(std::uint64_t started, std::int64_t asked_ms, std::int64_t now_us,
                    std::uint64_t random) noexcept
{
    // Also what comes late says until when.
    if (started != epoch_ && asked_ms < 0)
        return -1;
    note(ill_);
    last_answered_ = false;
    const std::int64_t own = backoff_.fail(random);
    // One that asks for no pause, or for one that is over, would be asked again without any.
    return pause(asked_ms < limits_.backoff_initial_ms ? own : std::min(asked_ms, kLongestHoldMs),
                 now_us);
}

std::int64_t
EndpointState::trouble(std::uint64_t started, bool first, std::int64_t now_us,
                       std::uint64_t random) noexcept
{
    note(ill_);
    if (started != epoch_)
        return -1;
    last_answered_ = false;
    if (away_)
        return pause(first ? backoff_.fail(random) : limits_.backoff_initial_ms, now_us);
    if (first && ++troubles_ >= kTroubles)
        return pause(backoff_.fail(random), now_us);
    return 0;
}

} // namespace outbox::http
