#include "stop_flag.h"

#include <cerrno>

namespace outbox::v0::detail
{

void
StopFlag::raise() noexcept
{
    const int saved = errno; // of what the signal interrupted
    if (!raised_.load())
        raised_at_.store(Clock::now().time_since_epoch().count());
    raised_.store(true);
    woken_.wake();
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
    woken_.drain();
    if (raised_.load())
        woken_.wake();
}

} // namespace outbox::v0::detail
