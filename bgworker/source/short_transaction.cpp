#include "short_transaction.h"

#include "process.h"

#include "extension/trust/trust.h"

namespace outbox
{

ProcessHooks process_hooks = {};

void
begin_transaction()
{
    StartTransactionCommand();
    PushActiveSnapshot(GetTransactionSnapshot());
    char problem[512];
    if (!objects_are_trusted(problem, sizeof(problem)) ||
        !schema_is_closed(problem, sizeof(problem)))
        process_hooks.stop_for_operator(problem);
}

void
end_transaction()
{
    PopActiveSnapshot();
    CommitTransactionCommand();
}

void
end_failed_transaction(const char *what, bool log, char *text, size_t size)
{
    error_context_stack = nullptr;
    HOLD_INTERRUPTS();
    if (log)
        EmitErrorReport();
    (void) MemoryContextSwitchTo(TopMemoryContext);
    ErrorData *error = CopyErrorData();
    snprintf(text, size, "%s: %s (SQLSTATE %s)", what,
             error->message != nullptr ? error->message : "error",
             unpack_sql_state(error->sqlerrcode));
    FreeErrorData(error);
    // Of a subtransaction too, if the error has left one: what follows is a transaction of its own.
    AbortOutOfAnyTransaction();
    FlushErrorState();
    (void) MemoryContextSwitchTo(TopMemoryContext);
    RESUME_INTERRUPTS();
}

} // namespace outbox
