// How long the last reports of a sink that has died are waited for.
#pragma once

#include "bgworker/engine/clock.h"
#include "bgworker/engine/mutant.h"

namespace outbox
{

// A broker that hangs may keep a report for a minute. What comes again although it has arrived is
// the price of a short wait; that all others stand still, of a long one. One bad event may follow
// the other, in the stream's sink and in redelivery's: when such a wait was just now, the next is
// a short one.
class LastReports
{
public:
    long longest_wait_ms(Steady dead_since) const noexcept
    {
        constexpr int kSoonMs = 5000;
        const bool first = waited_at_.is_never() || has_passed(waited_at_, dead_since, kSoonMs);
        return first || OUTBOX_MUTANT(waits_twice) ? kFirstMs : kNextMs;
    }
    // The wait is over.
    void note(Steady dead_since, Steady now) noexcept
    {
        constexpr int kShortMs = 100;
        if (has_passed(dead_since, now, kShortMs))
            waited_at_ = now;
    }

    static constexpr long kFirstMs = 1000;
    static constexpr long kNextMs = 250;

private:
    Steady waited_at_;
};

} // namespace outbox
