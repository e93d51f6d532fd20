// Steps whose DatabaseError is no reason to end the relay.
#pragma once

#include "clock.h"
#include "source.h"

namespace outbox
{

// What a round does beside publishing, in transactions of its own: it fails for itself. An error
// rolls its transaction back, is logged when it is another one than the last time, shown, and the
// step is tried again after a pause that grows from a second to a minute. Nothing that the process
// knows of the destination is lost by it, so nothing is published again.
class Guarded
{
public:
    Guarded(const char *what, Source &source, Clock &clock,
            std::int64_t longest_pause_ms = 60L * 1000) noexcept
        : what_(what), source_(source), clock_(clock), longest_pause_ms_(longest_pause_ms)
    {
    }

    // Calls f, unless the pause is not over. Returns whether it was called and came to its end.
    template <typename F> bool run(F f)
    {
        if (!is_due())
            return false;
        bool good = true;
        try
        {
            f();
        }
        catch (const DatabaseError &)
        {
            good = false;
        }
        if (good)
            note_success();
        else
            note_error();
        return good;
    }

    // The same for what is tried again as a part of something larger: calls f always, lets every
    // DatabaseError pass that is not NotWritten, and leaves it to the caller to say when the step
    // is known to work again, by note_success().
    template <typename F> bool watch(F f)
    {
        bool good = true;
        try
        {
            f();
        }
        catch (const NotWritten &)
        {
            good = false;
        }
        if (!good)
            note_error();
        return good;
    }

    void note_success() noexcept;
    bool is_due() const noexcept { return failures_ == 0 || clock_.steady() >= next_at_; }
    bool failing() const noexcept { return failures_ > 0; }
    // In ms; -1: it does not wait for anything.
    long due_within_ms() const noexcept;
    void retry_now() noexcept { next_at_ = {}; }

private:
    void note_error();

    const char *const what_;
    Source &source_;
    Clock &clock_;
    const std::int64_t longest_pause_ms_;
    int failures_ = 0;
    int logged_code_ = 0;
    Steady next_at_;
};

} // namespace outbox
