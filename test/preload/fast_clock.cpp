// Preloaded into a program: its steady clock runs 200 times as fast as the machine's, and it waits
// in poll() that much shorter, so that limits of minutes are there soon. With OUTBOX_TEST_FAST_FROM
// the clock is an ordinary one until there is a file of that name: what goes before may take its
// time.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace
{

constexpr int64_t kFactor = 200;
constexpr int64_t kSecond = 1000000000;
constexpr int64_t kMillisecond = 1000000;
constexpr int kSliceMs = 5; // after which a file is seen

std::atomic<int64_t> begin{0}; // of the fast time; 0: not yet

int64_t
real_time()
{
    timespec now = {};
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    return now.tv_sec * kSecond + now.tv_nsec;
}

int64_t
our_time()
{
    if (begin == 0)
    {
        const char *file = std::getenv("OUTBOX_TEST_FAST_FROM");
        if (file != nullptr && access(file, F_OK) != 0)
            return real_time();
        int64_t not_yet = 0;
        begin.compare_exchange_strong(not_yet, real_time());
    }
    const int64_t from = begin;
    return from + (real_time() - from) * kFactor;
}

} // namespace

extern "C" int
clock_gettime(clockid_t clock, timespec *time) noexcept
{
    if (clock != CLOCK_MONOTONIC)
        return static_cast<int>(syscall(SYS_clock_gettime, clock, time));
    const int64_t now = our_time();
    time->tv_sec = now / kSecond;
    time->tv_nsec = now % kSecond;
    return 0;
}

extern "C" int
poll(pollfd *fds, nfds_t count, int timeout_ms)
{
    const int64_t end = our_time() + timeout_ms * kMillisecond;
    for (;;)
    {
        const int64_t left_ms = (end - our_time()) / kMillisecond;
        const int slice =
            timeout_ms < 0 ? kSliceMs : static_cast<int>(std::clamp<int64_t>(left_ms, 0, kSliceMs));
        const int result = static_cast<int>(syscall(SYS_poll, fds, count, slice));
        if (result != 0 || (timeout_ms >= 0 && our_time() >= end))
            return result;
    }
}
