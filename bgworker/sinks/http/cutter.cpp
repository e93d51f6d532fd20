#include "cutter.h"

#include <cerrno>
#include <ctime>
#include <sys/socket.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

namespace outbox::http
{

namespace
{

// Of work, in one call.
constexpr long kLongestNs = 500000000;

// Nobody else in the server's processes uses those of real time, but the threads of another sink.
int
interruption() noexcept
{
    return SIGRTMIN + 5;
}

// Of the thread, which the signal is sent to.
class Timer
{
public:
    explicit Timer(void (*handler)(int)) noexcept
    {
        struct sigaction action = {};
        action.sa_handler = handler;
        action.sa_flags = SA_RESTART;
        sigevent event = {};
        event.sigev_notify = SIGEV_THREAD_ID;
        event.sigev_signo = interruption();
        event.sigev_notify_thread_id = gettid();
        is_there_ = sigaction(interruption(), &action, nullptr) == 0 &&
                    timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer_) == 0;
    }
    ~Timer()
    {
        if (is_there_)
            (void) timer_delete(timer_);
    }
    Timer(const Timer &) = delete;
    Timer &operator=(const Timer &) = delete;

    void set(long ns) const noexcept
    {
        itimerspec when = {};
        when.it_value.tv_nsec = ns;
        when.it_interval.tv_nsec = ns; // another connection may begin after that
        if (is_there_)
            (void) timer_settime(timer_, 0, &when, nullptr);
    }

private:
    timer_t timer_ = {};
    bool is_there_ = false;
};

const Timer &
timer(void (*handler)(int)) noexcept
{
    thread_local const Timer made(handler);
    return made;
}

// The one that is watched; read by the thread's own signal handler.
thread_local Cutter *volatile watched = nullptr;

} // namespace

void
Cutter::interrupted(int) noexcept
{
    Cutter *cutter = watched;
    if (cutter == nullptr)
        return; // it has come too late
    const int before = errno;
    for (const std::atomic<int> &fd : cutter->fds_)
        if (fd >= 0)
            (void) ::shutdown(fd, SHUT_RDWR);
    cutter->was_cut_ = 1;
    errno = before;
}

Cutter::Cutter() noexcept
{
    for (std::atomic<int> &fd : fds_)
        fd = -1;
}

void
Cutter::add(int fd) noexcept
{
    for (std::atomic<int> &place : fds_)
        if (place < 0)
        {
            place = fd;
            return;
        }
}

void
Cutter::remove(int fd) noexcept
{
    for (std::atomic<int> &place : fds_)
        if (place == fd)
            place = -1;
}

Cutter::Watch::Watch(Cutter &cutter) noexcept : cutter_(cutter)
{
    cutter.was_cut_ = 0;
    watched = &cutter;
    timer(interrupted).set(kLongestNs);
}

Cutter::Watch::~Watch()
{
    timer(interrupted).set(0);
    watched = nullptr;
}

void
Cutter::begin_anew() noexcept
{
    if (watched != nullptr)
        timer(interrupted).set(kLongestNs);
}

} // namespace outbox::http
