#include "station.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <new>
#include <utility>

namespace outbox::http
{

std::int64_t
steady_us() noexcept
{
    timespec now = {};
    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return std::int64_t{now.tv_sec} * 1000000 + now.tv_nsec / 1000;
}

Wakes::~Wakes()
{
    for (const int fd : {epoll_, timer_})
        if (fd >= 0)
            (void) ::close(fd);
}

bool
Wakes::open(int wake_up) noexcept
{
    wake_up_ = wake_up;
    epoll_ = epoll_create1(EPOLL_CLOEXEC);
    timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (epoll_ < 0 || timer_ < 0)
        return false;
    for (const int fd : {timer_, wake_up_})
    {
        epoll_event event = {};
        event.events = EPOLLIN;
        event.data.fd = fd;
        if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0)
            return false;
    }
    return true;
}

void
Wakes::arm(std::int64_t due_us) noexcept
{
    if (due_us == armed_us_)
        return;
    armed_us_ = due_us;
    itimerspec when = {};
    when.it_value.tv_sec = due_us / 1000000;
    when.it_value.tv_nsec = due_us % 1000000 * 1000;
    (void) timerfd_settime(timer_, TFD_TIMER_ABSTIME, &when, nullptr); // fails only for bad values
}

void
Wakes::reset(int fd) noexcept
{
    std::uint64_t count = 0;
    (void) !::read(fd, &count, sizeof count); // nothing there is fine
    if (fd == timer_)
        armed_us_ = 0;
}

bool
Wakes::want(int fd, std::uint32_t events) noexcept
{
    const auto found = std::find_if(sockets_.begin(), sockets_.end(),
                                    [fd](const Socket &socket) { return socket.fd == fd; });
    changed_ = true;
    if (found != sockets_.end())
    {
        found->wanted = events;
        return true;
    }
    try
    {
        sockets_.push_back({fd, events, 0});
        return true;
    }
    catch (const std::bad_alloc &)
    {
        return false;
    }
}

void
Wakes::forget(int fd) noexcept
{
    cutter.remove(fd);
    const auto found = std::find_if(sockets_.begin(), sockets_.end(),
                                    [fd](const Socket &socket) { return socket.fd == fd; });
    if (found == sockets_.end())
        return;
    *found = sockets_.back();
    sockets_.pop_back();
}

void
Wakes::rest(bool on) noexcept
{
    changed_ = changed_ || on != resting_;
    resting_ = on;
}

bool
Wakes::settle() noexcept
{
    if (!std::exchange(changed_, false))
        return true;
    bool settled = true;
    for (std::size_t i = 0; i < sockets_.size();)
    {
        Socket &socket = sockets_[i];
        const std::uint32_t given = resting_ ? socket.wanted & ~EPOLLIN : socket.wanted;
        if (given != socket.given)
        {
            epoll_event event = {};
            event.events = given;
            event.data.fd = socket.fd;
            const int change = given == 0          ? EPOLL_CTL_DEL
                               : socket.given == 0 ? EPOLL_CTL_ADD
                                                   : EPOLL_CTL_MOD;
            settled = epoll_ctl(epoll_, change, socket.fd, &event) == 0 && settled;
            socket.given = given;
        }
        if (socket.wanted != 0)
            i++;
        else
        {
            socket = sockets_.back();
            sockets_.pop_back();
        }
    }
    return settled;
}

Station::Station(const Setup &the_setup, std::shared_ptr<WakeUps> wake_ups)
    : setup(the_setup), endpoint({the_setup.backoff_initial_ms, the_setup.backoff_max_ms,
                                  the_setup.options.max_in_flight, the_setup.options.rate},
                                 steady_us()),
      resolver(the_setup.endpoint.host, the_setup.endpoint.port, wake_ups), signer(setup.keys),
      wake_ups_(std::move(wake_ups))
{
}

std::unique_ptr<Station>
Station::make(const Setup &setup)
{
    auto wake_ups = std::make_shared<WakeUps>();
    if (!wake_ups->open())
        return nullptr;
    std::unique_ptr<Station> station(new Station(setup, wake_ups));
    for (std::size_t use = 0; use < kUses; use++)
        if (!station->wakes[use].open(wake_ups->fd(use)))
            return nullptr;
    return station;
}

int
Station::share(std::size_t use, std::int64_t now_us) noexcept
{
    const int free = endpoint.may_start(now_us);
    bool other_waits = false;
    for (std::size_t other = 0; other < kUses; other++)
        other_waits = other_waits || (other != use && waits_[other]);
    return other_waits && last_begun_ == use ? std::max(free - 1, 0) : free;
}

void
Station::wake_others(std::size_t use) noexcept
{
    for (std::size_t other = 0; other < kUses; other++)
        if (other != use && waits_[other])
            (void) eventfd_write(wakes[other].wake_up(), 1);
}

} // namespace outbox::http
