// Ctrl-C as something that the demo looks for between its steps, so that it always cleans up.
#pragma once

#include <stdexcept>

namespace outbox::demo
{

// Thrown where a pending interrupt is noticed.
class Interrupted : public std::runtime_error
{
public:
    Interrupted() : std::runtime_error("interrupted") {}
};

// From now on SIGINT, SIGTERM and SIGHUP only set a mark, and a closed pipe is an ordinary error.
void catch_interrupts();

bool interrupted();

// Throws Interrupted when one of those signals has come.
void check_interrupt();

// While it lives, Ctrl-C at our terminal reaches this program alone. The make that started us would
// take the signal for a failure, and report one after we have ended in good order.
class TerminalOwner
{
public:
    TerminalOwner();
    ~TerminalOwner();
    TerminalOwner(const TerminalOwner &) = delete;
    TerminalOwner &operator=(const TerminalOwner &) = delete;

private:
    int terminal_ = -1;
    int former_group_ = -1;
};

} // namespace outbox::demo
