// Preloaded into a server: now and then a process stands still for some milliseconds after a system
// call, as on a machine that has more to do than it can. So what happens between two steps of one
// process, which takes microseconds else, gets its chance.
#include <atomic>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

namespace
{

constexpr uint64_t kOneIn = 12;
constexpr uint64_t kLongestNs = 5000000;

uint64_t
random_number()
{
    static std::atomic<uint64_t> last{0};
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    // A step of SplitMix64 (Steele, Lea and Flood: Fast Splittable Pseudorandom Number Generators).
    uint64_t z = last += 0x9e3779b97f4a7c15 ^ static_cast<uint64_t>(now.tv_nsec) ^
                         (static_cast<uint64_t>(getpid()) << 32);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

template <typename Result>
Result
pause_after(Result result)
{
    if (random_number() % kOneIn == 0)
    {
        const timespec pause = {0, static_cast<long>(random_number() % kLongestNs)};
        // Not nanosleep(): the caller's errno stays as it is.
        (void) clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, nullptr);
    }
    return result;
}

} // namespace

extern "C" off_t
lseek(int file, off_t offset, int whence) noexcept
{
    return pause_after(static_cast<off_t>(syscall(SYS_lseek, file, offset, whence)));
}

extern "C" off64_t
lseek64(int file, off64_t offset, int whence) noexcept
{
    return pause_after(static_cast<off64_t>(syscall(SYS_lseek, file, offset, whence)));
}

extern "C" int
kill(pid_t process, int number) noexcept
{
    return pause_after(static_cast<int>(syscall(SYS_kill, process, number)));
}

extern "C" int
epoll_wait(int set, epoll_event *events, int most, int timeout)
{
    return pause_after(
        static_cast<int>(syscall(SYS_epoll_pwait, set, events, most, timeout, nullptr, 8)));
}
