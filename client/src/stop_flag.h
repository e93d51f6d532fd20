// A request to stop that wakes whoever waits in poll().
#pragma once

#include <atomic>

#include "outbox/export.h"

namespace outbox::v0::detail
{

// Thrown where work is given up because of a request to stop; never leaves the library.
struct Stopped
{
};

class StopFlag
{
public:
    StopFlag();
    ~StopFlag();
    StopFlag(const StopFlag &) = delete;
    StopFlag &operator=(const StopFlag &) = delete;

    // May be called from a signal handler.
    void raise() noexcept;
    void clear() noexcept;
    bool raised() const noexcept { return raised_.load(); }
    // Readable once raised.
    int fd() const noexcept { return fd_; }

private:
    static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may not wait");
    std::atomic<bool> raised_{false};
    int fd_;
};

} // namespace outbox::v0::detail
