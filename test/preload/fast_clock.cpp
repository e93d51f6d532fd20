// Preloaded into a program: its steady clock runs 200 times as fast as the machine's, and it waits
// in poll() that much shorter, so that limits of minutes are there soon.
#include <algorithm>
#include <cstdint>
#include <ctime>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace
{

constexpr int64_t kFactor = 200;
constexpr int64_t kSecond = 1000000000;

int
real_clock(clockid_t clock, timespec *time)
{
    return static_cast<int>(syscall(SYS_clock_gettime, clock, time));
}

int64_t
nanoseconds(const timespec &time)
{
    return time.tv_sec * kSecond + time.tv_nsec;
}

// When the program asked for the first time.
int64_t
beginning()
{
    static const int64_t begin = []
    {
        timespec now = {};
        real_clock(CLOCK_MONOTONIC, &now);
        return nanoseconds(now);
    }();
    return begin;
}

} // namespace

extern "C" int
clock_gettime(clockid_t clock, timespec *time) noexcept
{
    const int64_t begin = beginning();
    const int result = real_clock(clock, time);
    if (result == 0 && clock == CLOCK_MONOTONIC)
    {
        const int64_t fast = begin + (nanoseconds(*time) - begin) * kFactor;
        time->tv_sec = fast / kSecond;
        time->tv_nsec = fast % kSecond;
    }
    return result;
}

extern "C" int
poll(pollfd *fds, nfds_t count, int timeout_ms)
{
    const int shorter =
        timeout_ms <= 0 ? timeout_ms : std::max(1, timeout_ms / static_cast<int>(kFactor));
    return static_cast<int>(syscall(SYS_poll, fds, count, shorter));
}
