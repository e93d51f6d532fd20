#include "event_fd.h"

#include "system_error.h"

#include <cerrno>
#include <cstdint>

#include <sys/eventfd.h>
#include <unistd.h>

namespace outbox::v0::detail
{

EventFd::EventFd() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))
{
    if (fd_ < 0)
        throw SystemError("eventfd", errno);
}

EventFd::~EventFd()
{
    (void) ::close(fd_);
}

void
EventFd::wake() const noexcept
{
    const std::uint64_t one = 1;
    // Fails only if the counter is full, and then it is readable anyhow.
    (void) !write(fd_, &one, sizeof one);
}

void
EventFd::drain() const noexcept
{
    std::uint64_t count = 0;
    (void) !read(fd_, &count, sizeof count); // nothing there is as good
}

} // namespace outbox::v0::detail
