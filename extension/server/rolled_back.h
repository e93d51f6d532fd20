// Reading that leaves no lock behind.
#pragma once

#include "pg.h"

namespace outbox
{

// Calls f, which returns a bool, in a subtransaction that is rolled back: the locks and snapshots
// that it took go at once, not with the caller's transaction. What f is to hand over, it copies
// into memory of the caller. An error is raised again, with the caller's subtransaction as the
// current one.
template <typename F>
bool
rolled_back(F f)
{
    const MemoryContext context = CurrentMemoryContext;
    const ResourceOwner owner = CurrentResourceOwner;
    volatile bool result = false;
    BeginInternalSubTransaction(nullptr);
    (void) MemoryContextSwitchTo(context);
    PG_TRY();
    {
        result = f();
    }
    PG_CATCH();
    {
        (void) MemoryContextSwitchTo(context);
        ErrorData *error = CopyErrorData();
        FlushErrorState();
        RollbackAndReleaseCurrentSubTransaction();
        (void) MemoryContextSwitchTo(context);
        CurrentResourceOwner = owner;
        ReThrowError(error);
    }
    PG_END_TRY();
    RollbackAndReleaseCurrentSubTransaction();
    (void) MemoryContextSwitchTo(context);
    CurrentResourceOwner = owner;
    return result;
}

} // namespace outbox
