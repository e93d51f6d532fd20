#include "relay.h"

#include "guarded.h"

#include "extension/core/steady.h"

namespace outbox
{

namespace
{

constexpr int64 kFirstPauseMs = 1000;

} // namespace

void
end_failed_transaction(const char *what, bool tell, char *text, size_t size)
{
    error_context_stack = nullptr;
    HOLD_INTERRUPTS();
    if (tell)
        EmitErrorReport();
    (void) MemoryContextSwitchTo(TopMemoryContext);
    ErrorData *error = CopyErrorData();
    snprintf(text, size, "%s: %s (SQLSTATE %s)", what,
             error->message != nullptr ? error->message : "error",
             unpack_sql_state(error->sqlerrcode));
    FreeErrorData(error);
    AbortCurrentTransaction();
    FlushErrorState();
    (void) MemoryContextSwitchTo(TopMemoryContext);
    RESUME_INTERRUPTS();
}

bool
Guarded::is_due() const
{
    return failures_ == 0 || steady_now() >= next_at_;
}

long
Guarded::due_within_ms() const
{
    return failures_ == 0 ? -1 : Max(1L, static_cast<long>((next_at_ - steady_now()) / 1000));
}

void
Guarded::note_error()
{
    const int code = geterrcode();
    char text[512];
    // An error that comes again and again is in relay_status.
    end_failed_transaction(what_, code != told_code_, text, sizeof(text));
    note_problem(text);
    told_code_ = code;
    const int64 pause = Min(kFirstPauseMs << Min(failures_, 10), longest_pause_ms_);
    failures_ = Min(failures_ + 1, 16);
    next_at_ = steady_now() + pause * 1000;
}

void
Guarded::note_success()
{
    if (failures_ > 0)
        ereport(LOG, (errmsg("outbox relay: %s works again", what_)));
    failures_ = 0;
    told_code_ = 0;
}

} // namespace outbox
