// What may fail with an ERROR that is one event's own fault.
#pragma once

#include "bgworker/engine/failure.h"

#include "extension/server/pg.h"

namespace outbox
{

// Whether an error is due to what was read: a request to end, a lock or a conflict with another
// transaction is not.
bool is_of_the_event(int sqlerrcode);

// The error as a failure of one event: its SQLSTATE and message.
void describe_error(int sqlerrcode, const char *message, Failure *why);

// Calls f in a subtransaction, which takes back the pins, locks and snapshots of a failed attempt.
// What f writes is taken back as well, so the caller relies on it only after the answer. f keeps
// no row pinned. False: `why` says what was wrong.
// Memory goes to the current context. An error that is not the event's is passed on.
template <typename F>
bool
attempt(F f, Failure *why)
{
    const MemoryContext context = CurrentMemoryContext;
    const ResourceOwner owner = CurrentResourceOwner;
    volatile bool good = false;
    BeginInternalSubTransaction(nullptr);
    (void) MemoryContextSwitchTo(context);
    PG_TRY();
    {
        f();
        ReleaseCurrentSubTransaction();
        good = true;
    }
    PG_CATCH();
    {
        (void) MemoryContextSwitchTo(context);
        if (!is_of_the_event(geterrcode()))
            PG_RE_THROW();
        ErrorData *error = CopyErrorData();
        FlushErrorState();
        RollbackAndReleaseCurrentSubTransaction();
        describe_error(error->sqlerrcode, error->message, why);
        FreeErrorData(error);
    }
    PG_END_TRY();
    (void) MemoryContextSwitchTo(context);
    CurrentResourceOwner = owner;
    return good;
}

} // namespace outbox
