#include "interrupt.h"

#include <csignal>
#include <stdexcept>
#include <string>

#include <fcntl.h>
#include <unistd.h>

namespace outbox::demo
{

namespace
{

volatile std::sig_atomic_t signal_came = 0;

void
mark_signal(int)
{
    signal_came = 1;
}

void
do_nothing(int)
{
}

// A handler, not SIG_IGN: the programs that we start would inherit that.
void
handle(int number, void (*handler)(int))
{
    struct sigaction action = {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    if (sigaction(number, &action, nullptr) != 0)
        throw std::runtime_error("cannot handle signal " + std::to_string(number));
}

// Makes `group` the one that the terminal's signals go to. A process of another group that asks for
// this is stopped, unless it blocks the signal that does so.
bool
give_terminal(int terminal, pid_t group)
{
    sigset_t stop;
    sigset_t before;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTTOU);
    if (pthread_sigmask(SIG_BLOCK, &stop, &before) != 0)
        return false;
    const bool given = tcsetpgrp(terminal, group) == 0;
    return pthread_sigmask(SIG_SETMASK, &before, nullptr) == 0 && given;
}

} // namespace

void
catch_interrupts()
{
    for (const int number : {SIGINT, SIGTERM, SIGHUP})
        handle(number, mark_signal);
    handle(SIGPIPE, do_nothing);
}

bool
interrupted()
{
    return signal_came != 0;
}

void
check_interrupt()
{
    if (interrupted())
        throw Interrupted();
}

TerminalOwner::TerminalOwner()
{
    const int terminal = open("/dev/tty", O_RDWR | O_CLOEXEC);
    if (terminal < 0)
        return; // nobody can press Ctrl-C
    const pid_t foreground = tcgetpgrp(terminal);
    if (foreground == getpgrp() && setpgid(0, 0) == 0 && give_terminal(terminal, getpid()))
    {
        // Stopping us would leave the shell waiting for a make that is not stopped.
        handle(SIGTSTP, do_nothing);
        terminal_ = terminal;
        former_group_ = foreground;
    }
    else
        close(terminal);
}

TerminalOwner::~TerminalOwner()
{
    if (terminal_ < 0)
        return;
    (void) give_terminal(terminal_, former_group_); // that group may be gone, then it needs nothing
    close(terminal_);
}

} // namespace outbox::demo
