// Preloaded into a server: its time of day is the machine's plus the seconds that the file
// $OUTBOX_TEST_CLOCK holds at the moment (a 64-bit number). The steady clock stays as it is, as
// when somebody sets a machine's clock.
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

namespace
{

const volatile int64_t *
map_offset()
{
    static const int64_t none = 0;
    const char *path = getenv("OUTBOX_TEST_CLOCK");
    const int file = path == nullptr ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return &none;
    void *at = mmap(nullptr, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    return at == MAP_FAILED ? &none : static_cast<const int64_t *>(at);
}

int64_t
offset()
{
    static const volatile int64_t *const mapped = map_offset();
    return *mapped;
}

} // namespace

extern "C" int
clock_gettime(clockid_t clock, timespec *time) noexcept
{
    const int result = static_cast<int>(syscall(SYS_clock_gettime, clock, time));
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        time->tv_sec += offset();
    return result;
}

extern "C" int
gettimeofday(timeval *time, void *) noexcept
{
    timespec now;
    const int result = clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return result;
}

extern "C" time_t
time(time_t *result) noexcept
{
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result != nullptr)
        *result = now.tv_sec;
    return now.tv_sec;
}
