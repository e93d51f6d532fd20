#include "interrupts.h"

#include "errors.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace outbox::ctl
{

namespace
{

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGWINCH};

int signal_fd = -1;
int watched_output = -1;
sigset_t former_mask;
int ended_by = 0;

sigset_t
our_signals()
{
    sigset_t set;
    sigemptyset(&set);
    for (const int number : kSignals)
        sigaddset(&set, number);
    return set;
}

int
milliseconds_until(Clock::time_point deadline)
{
    using std::chrono::duration_cast;
    constexpr Milliseconds::rep kLongest = Milliseconds(std::chrono::hours(1)).count();
    const auto left = duration_cast<Milliseconds>(deadline - Clock::now()).count() + 1;
    return static_cast<int>(std::clamp<Milliseconds::rep>(left, 0, kLongest));
}

// Reads one signal; false when there is none.
bool
take_signal(Woken &woken)
{
    signalfd_siginfo info = {};
    if (read(signal_fd, &info, sizeof info) != static_cast<ssize_t>(sizeof info))
        return false;
    switch (info.ssi_signo)
    {
    case SIGWINCH:
        woken = Woken::kResized;
        return true;
    case SIGTSTP:
        woken = Woken::kStop;
        return true;
    default:
        ended_by = static_cast<int>(info.ssi_signo);
        throw Interrupted();
    }
}

} // namespace

Interrupts::Interrupts(Output output)
{
    const sigset_t set = our_signals();
    signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (signal_fd < 0 || pthread_sigmask(SIG_BLOCK, &set, &former_mask) != 0)
        throw Error(kFailed, std::string("cannot take signals: ") + std::strerror(errno));
    watched_output = output == Output::kWatched ? STDOUT_FILENO : -1;
}

// A signal that came and was not taken acts now: a Ctrl-C pressed twice is meant.
Interrupts::~Interrupts()
{
    (void) close(signal_fd);
    signal_fd = -1;
    watched_output = -1;
    (void) pthread_sigmask(SIG_SETMASK, &former_mask, nullptr);
}

bool
Interrupts::active()
{
    return signal_fd >= 0;
}

Woken
wait_for(int fd, short events, Clock::time_point deadline)
{
    for (;;)
    {
        // poll() leaves out descriptors that are negative.
        pollfd watched[] = {{signal_fd, POLLIN, 0}, {fd, events, 0}, {watched_output, 0, 0}};
        const int count = poll(watched, 3, milliseconds_until(deadline));
        if (count < 0 && errno != EINTR)
            throw Error(kFailed, std::string("cannot wait: ") + std::strerror(errno));
        Woken woken = Woken::kReady;
        if (count > 0 && watched[0].revents != 0 && take_signal(woken))
            return woken;
        if (count > 0 && (watched[2].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0)
            throw OutputGone("");
        if (count > 0 && watched[1].revents != 0)
            return Woken::kReady;
        if (Clock::now() >= deadline)
            return Woken::kTimeout;
    }
}

int
ending_signal()
{
    return ended_by;
}

void
exit_at_signals()
{
    for (const int number : {SIGTERM, SIGHUP})
    {
        struct sigaction action = {};
        if (sigaction(number, nullptr, &action) != 0 || action.sa_handler != SIG_DFL)
            continue;
        action.sa_handler = [](int) { _exit(kInterrupted); };
        (void) sigaction(number, &action, nullptr); // the default would end us too
    }
}

void
end_by_sigint()
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    (void) std::signal(SIGINT, SIG_DFL);
    (void) pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
    (void) raise(SIGINT);
}

PostponedStop::~PostponedStop()
{
    if (came_)
        (void) raise(SIGTSTP); // blocked, so that wait_for() gets it
}

void
stop_here()
{
    if (raise(SIGSTOP) != 0)
        throw Error(kFailed, std::string("cannot stop: ") + std::strerror(errno));
}

} // namespace outbox::ctl
