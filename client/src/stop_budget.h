// How long run() may take to end.
#pragma once

#include <algorithm>
#include <chrono>

#include "stop_flag.h"

namespace outbox::v0::detail
{

// One for all that is waited for from a stop() on, or from an exception that ends run(): answers of
// PostgreSQL, of the dedup store and of Kafka. The time of a handler does not count.
class StopBudget
{
public:
    using Clock = StopFlag::Clock;

    StopBudget(const StopFlag &stop, std::chrono::milliseconds limit) : stop_(stop), limit_(limit)
    {
    }

    // A run() begins.
    void reset() noexcept
    {
        ends_ = false;
        restart();
    }
    // A handler has ended: what it took is not counted.
    void restart() noexcept { from_ = Clock::now(); }
    // The run() is to end, though nobody has asked for it.
    void begin() noexcept
    {
        from_ = stop_.raised() ? start() : Clock::now();
        ends_ = true;
    }

    bool begun() const noexcept { return ends_ || stop_.raised(); }
    // The time that `part` of the whole is over, if it is counted already, or else `deadline` if
    // that comes first.
    Clock::time_point cap(Clock::time_point deadline, int percent = 100) const noexcept
    {
        if (!begun())
            return deadline;
        return std::min(deadline, start() + limit_ * percent / 100);
    }
    Clock::time_point end() const noexcept { return cap(Clock::time_point::max()); }
    // Ends a wait whose limit a stop changes; none if it has done so already.
    const StopFlag *awaited() const noexcept { return begun() ? nullptr : &stop_; }

private:
    Clock::time_point start() const noexcept
    {
        return ends_ ? from_ : std::max(from_, stop_.raised_at());
    }

    const StopFlag &stop_;
    const std::chrono::milliseconds limit_;
    Clock::time_point from_ = Clock::now();
    bool ends_ = false;
};

} // namespace outbox::v0::detail
