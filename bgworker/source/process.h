// What the source reports to the process that it works for.
#pragma once

namespace outbox
{

struct ProcessHooks
{
    // Reports a text as the relay's last error, and logs it when it is new.
    void (*report_problem)(const char *text);
    // Ends the process: nothing is published until an operator has done what this asks for.
    void (*stop_for_operator)(const char *problem);
};

// To be set before the first transaction.
extern ProcessHooks process_hooks;

} // namespace outbox
