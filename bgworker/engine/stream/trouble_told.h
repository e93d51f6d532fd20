// What the log has of trouble that comes and goes.
#pragma once

#include "bgworker/engine/clock.h"

#include <utility>

namespace outbox
{

// A line when trouble begins and one when it ends. A destination that fails and recovers several
// times a second, such as an endpoint that asks for fewer requests, fills no log: a line that it
// begins is not followed by another one for a minute. What then still lasts, or lasts again, is
// said; what was over by then is not, and neither is its end.
class TroubleTold
{
public:
    enum class Say : unsigned char
    {
        nothing,
        begins,
        ends
    };

    static constexpr std::int64_t kPauseMs = 60L * 1000;

    // An end that was not said yet was none.
    void begin() noexcept
    {
        if (!std::exchange(ended_, false))
            begun_ = true;
    }
    void end() noexcept { ended_ = true; }

    bool has_news() const noexcept { return begun_ || ended_; }
    // What is to be said now; to be asked until that is nothing.
    Say next(Steady now) noexcept
    {
        if (begun_ && (never_ || has_passed(said_at_, now, kPauseMs)))
        {
            begun_ = never_ = false;
            said_ = true;
            said_at_ = now;
            return Say::begins;
        }
        if (!std::exchange(ended_, false))
            return Say::nothing;
        begun_ = false;
        return std::exchange(said_, false) ? Say::ends : Say::nothing;
    }

private:
    bool begun_ = false; // and not said yet
    bool ended_ = false; // the same
    bool said_ = false;  // that the present trouble has begun
    bool never_ = true;
    Steady said_at_;
};

} // namespace outbox
