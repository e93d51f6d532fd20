// A request to stop that wakes whoever waits in poll().
#pragma once

#include <atomic>
#include <chrono>

#include "event_fd.h"
#include "outbox/export.h"

namespace outbox::v0::detail
{

// Thrown where work is given up because of a request to stop; never leaves the library.
struct Stopped
{
};

// The flag is what counts; the descriptor only wakes. raise() sets the flag first and writes then,
// and whoever empties the descriptor looks at the flag afterwards, so that a raised flag is always
// followed by a readable descriptor.
class StopFlag
{
public:
    using Clock = std::chrono::steady_clock;

    // May be called from a signal handler.
    void raise() noexcept;
    // Takes a request back that was met. One that comes meanwhile stays.
    void clear() noexcept;
    bool raised() const noexcept { return raised_.load(); }
    // When that was; for a raised one.
    Clock::time_point raised_at() const noexcept
    {
        return Clock::time_point(Clock::duration(raised_at_.load()));
    }
    // Readable once raised; for a moment also after clear(), see settle().
    int fd() const noexcept { return woken_.get(); }
    // For whoever finds fd() readable: makes it unreadable unless raised.
    void settle() const noexcept;

private:
    static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may not wait");
    static_assert(std::atomic<Clock::rep>::is_always_lock_free, "nor here");
    std::atomic<Clock::rep> raised_at_{0};
    std::atomic<bool> raised_{false};
    const EventFd woken_;
};

} // namespace outbox::v0::detail
