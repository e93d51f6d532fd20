// How long to wait before the next attempt.
#pragma once

#include <algorithm>
#include <cstdint>

namespace outbox
{

// Exponential backoff with "equal jitter": the n-th wait is between half of and the whole of
// initial * 2^(n-1), at most `longest`. Jitter keeps many relays from knocking at the same instant
// (M. Brooker, "Exponential Backoff And Jitter", 2015).
class Backoff
{
public:
    void configure(std::int64_t initial_ms, std::int64_t longest_ms) noexcept
    {
        initial_ms_ = std::max<std::int64_t>(initial_ms, 1);
        longest_ms_ = std::max(longest_ms, initial_ms_);
    }

    // Counts a failure and returns the wait that follows it. `random` may be any number.
    std::int64_t fail(std::uint64_t random) noexcept
    {
        failures_++;
        const int doublings = static_cast<int>(std::min<std::uint32_t>(failures_ - 1, 40));
        std::int64_t wait = longest_ms_;
        if (initial_ms_ <= (longest_ms_ >> doublings))
            wait = initial_ms_ << doublings;
        const std::int64_t half = wait / 2;
        return half +
               static_cast<std::int64_t>(random % static_cast<std::uint64_t>(wait - half + 1));
    }

    void succeed() noexcept { failures_ = 0; }

    // Failures since the last success.
    std::uint32_t failures() const noexcept { return failures_; }

private:
    std::int64_t initial_ms_ = 500;
    std::int64_t longest_ms_ = 60000;
    std::uint32_t failures_ = 0;
};

} // namespace outbox
