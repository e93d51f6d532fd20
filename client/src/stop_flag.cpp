#include "stop_flag.h"

#include <cerrno>
#include <cstdint>
#include <system_error>

#include <sys/eventfd.h>
#include <unistd.h>

namespace outbox::v0::detail
{

StopFlag::StopFlag() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))
{
    if (fd_ < 0)
        throw std::system_error(errno, std::generic_category(), "eventfd");
}

StopFlag::~StopFlag()
{
    (void) close(fd_);
}

void
StopFlag::wake() const noexcept
{
    const std::uint64_t one = 1;
    // Fails only if the counter is full, and then it is readable anyhow.
    (void) !write(fd_, &one, sizeof one);
}

void
StopFlag::raise() noexcept
{
    const int saved = errno; // of what the signal interrupted
    raised_.store(true);
    wake();
    errno = saved;
}

void
StopFlag::clear() noexcept
{
    raised_.store(false);
    settle();
}

void
StopFlag::settle() const noexcept
{
    if (raised_.load())
        return;
    std::uint64_t count = 0;
    (void) !read(fd_, &count, sizeof count); // nothing there is as good
    if (raised_.load())
        wake();
}

} // namespace outbox::v0::detail
