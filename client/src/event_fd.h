// A descriptor that is readable once somebody has written to it.
#pragma once

#include "outbox/export.h"

namespace outbox::v0::detail
{

class EventFd
{
public:
    // Throws SystemError, as when the process has no descriptor left.
    EventFd();
    ~EventFd();
    EventFd(const EventFd &) = delete;
    EventFd &operator=(const EventFd &) = delete;

    int get() const noexcept { return fd_; }
    // May be called from a signal handler; changes errno.
    void wake() const noexcept;
    void drain() const noexcept;

private:
    int fd_;
};

} // namespace outbox::v0::detail
