// Waits for the end of a thread, but not for ever.
#pragma once

#include <ctime>
#include <pthread.h>

namespace outbox
{

// Whether it has ended, and was joined, within the time. Else it is the caller's still, to detach.
inline bool
ends_within(pthread_t thread, int timeout_ms) noexcept
{
    constexpr long kSecond = 1000L * 1000 * 1000;
    timespec deadline;
    (void) clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += timeout_ms / 1000;
    deadline.tv_nsec += timeout_ms % 1000 * 1000L * 1000;
    if (deadline.tv_nsec >= kSecond)
    {
        deadline.tv_sec++;
        deadline.tv_nsec -= kSecond;
    }
    return pthread_clockjoin_np(thread, nullptr, CLOCK_MONOTONIC, &deadline) == 0;
}

} // namespace outbox
