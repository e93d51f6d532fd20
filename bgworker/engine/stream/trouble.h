// Whether the destination takes events, and what is said of it.
#pragma once

#include "trouble_told.h"

#include "bgworker/engine/common/backoff.h"
#include "bgworker/engine/report.h"
#include "bgworker/engine/world.h"

#include <algorithm>
#include <cstdint>

namespace outbox
{

//     healthy ── fail() ──▶ failing ── succeed(): an acknowledgement, or an answer ──▶ healthy
//                           ▲     │
//                           └─────┘ fail() again: the pause until the next attempt grows
//
// One line is logged when trouble begins and one when it ends, unless it does so too often: see
// TroubleTold.
class Trouble
{
public:
    explicit Trouble(Clock &clock) noexcept : clock_(clock) {}
    void configure(const FailurePolicy &policy) noexcept
    {
        backoff_.configure(policy.backoff_initial_ms, policy.backoff_max_ms);
        longest_ms_ = policy.backoff_max_ms;
    }

    void fail(const Failure &failure) noexcept;
    // What failed before has failed again, as far as is known.
    void fail_again() noexcept
    {
        const int quiet = quiet_attempts_ + 1;
        last_.retry_after_ms = -1; // it was said of the attempt before
        fail(last_);
        quiet_attempts_ = quiet;
    }
    // News of the connection.
    void hear(const Failure &news) noexcept;
    void succeed() noexcept;

    bool is_failing() const noexcept { return backoff_.failures() > 0; }
    bool may_attempt(Steady now) const noexcept { return ms_until_attempt(now) == 0; }
    // Whether an answer of the destination would end the trouble although something is in flight:
    // it was the connection, or nothing was heard of it for some attempts. What else is wrong, such
    // as a right that is missing, comes again although there are answers.
    bool ends_with_answer() const noexcept
    {
        constexpr int kQuietAttempts = 3;
        return of_connection_ || quiet_attempts_ >= kQuietAttempts;
    }
    // When the longest pause was made shorter, one that is longer than that is over, unless the
    // destination has asked for it.
    long ms_until_attempt(Steady now) const noexcept
    {
        const long left = ms_between(now, next_attempt_at_);
        return left > std::max(longest_ms_, asked_ms_) ? 0 : left;
    }

    void log_news(Source &source) noexcept;
    void report(EngineReport &report) const noexcept;

private:
    void log_begin(Source &source) const noexcept;
    void log_end(Source &source) const noexcept;

    Clock &clock_;
    Backoff backoff_;
    std::int64_t longest_ms_ = 60000;
    std::int64_t asked_ms_ = -1; // by the sink, for the present pause
    Steady next_attempt_at_;
    Time shown_attempt_at_ = 0;
    Failure news_; // the last that was no summary
    Failure last_;
    bool of_connection_ = false; // that was
    int quiet_attempts_ = 0;     // since then
    Time last_at_ = 0;
    TroubleTold told_;
    std::uint32_t failures_before_ = 0;
};

} // namespace outbox
