// Signals as something that is waited for together with sockets, so that a waiting command ends in
// good order.
#pragma once

#include <chrono>

namespace outbox::ctl
{

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

// While one lives, SIGINT, SIGTERM, SIGHUP, SIGTSTP and SIGWINCH are taken by wait_for() instead of
// acting by themselves. Make it before librdkafka starts threads: they inherit that. One at a time.
class Interrupts
{
public:
    enum class Output
    {
        kIgnored,
        kWatched, // wait_for() throws OutputGone when the reader of our output is gone
    };

    explicit Interrupts(Output output = Output::kIgnored);
    ~Interrupts();
    Interrupts(const Interrupts &) = delete;
    Interrupts &operator=(const Interrupts &) = delete;

    static bool active();
};

enum class Woken
{
    kReady,   // the descriptor
    kTimeout, // the time is over
    kResized, // the terminal has another size
    kStop,    // Ctrl-Z: the caller tidies up and calls stop_here()
};

// Waits until `fd` (-1: none) is ready for `events` (poll's), or until `deadline`. Throws
// Interrupted when a signal asks to end; without an Interrupts alive no other signals are looked
// for.
Woken wait_for(int fd, short events, Clock::time_point deadline);

// The signal that wait_for() threw Interrupted for last; 0: none.
int ending_signal();

// From now on SIGTERM and SIGHUP end us with the exit code that is documented, where no Interrupts
// lives. Not where whoever started us wants them ignored.
void exit_at_signals();

// Ends as SIGINT does: a shell that runs us in a loop ends its loop only then.
void end_by_sigint();

// Stops this process as Ctrl-Z does; returns when it is continued.
void stop_here();

// For who waits and cannot tidy up: a Ctrl-Z that came meanwhile comes again at the end.
class PostponedStop
{
public:
    PostponedStop() = default;
    ~PostponedStop();
    PostponedStop(const PostponedStop &) = delete;
    PostponedStop &operator=(const PostponedStop &) = delete;
    void note(Woken woken) { came_ = came_ || woken == Woken::kStop; }

private:
    bool came_ = false;
};

} // namespace outbox::ctl
