// How a relay's process ends, and what it leaves behind for who looks.

#include "relay.h"

namespace outbox
{

namespace
{

void
show_stopped(RelayState state, const char *problem)
{
    SpinLockAcquire(&relay.slot->mutex);
    relay.slot->report.state = state;
    relay.slot->report.ended_by_error = false;
    relay.slot->report.last_error_at = GetCurrentTimestamp();
    strlcpy(relay.slot->report.last_error, problem, sizeof(relay.slot->report.last_error));
    SpinLockRelease(&relay.slot->mutex);
}

// Told once: the launcher looks again every minute.
int
level_of(const char *problem)
{
    SpinLockAcquire(&relay.slot->mutex);
    const RelayReport before = relay.slot->report;
    SpinLockRelease(&relay.slot->mutex);
    return strcmp(before.last_error, problem) == 0 ? DEBUG1 : WARNING;
}

} // namespace

namespace
{

char last_problem[512];
TimestampTz last_problem_at = 0;

struct Wait
{
    char problem[512]; // stays, so that it is not told each time
    TimestampTz since; // 0: it is over
};

Wait waits[static_cast<int>(Awaited::restore) + 1];

void
show_if_newer(RelayReport *report, const char *problem, TimestampTz at)
{
    // What is of later than now, was before the clock was set back.
    const bool is_late = report->last_error_at > GetCurrentTimestamp();
    if (at == 0 || (at < report->last_error_at && !is_late))
        return;
    report->last_error_at = at;
    strlcpy(report->last_error, problem, sizeof(report->last_error));
}

} // namespace

void
note_problem(const char *problem)
{
    const bool known = strcmp(problem, last_problem) == 0;
    last_problem_at = known ? last_problem_at : GetCurrentTimestamp();
    strlcpy(last_problem, problem, sizeof(last_problem));
    if (!known)
        ereport(LOG, (errmsg("outbox relay: %s", problem)));
}

void
note_wait(Awaited what, const char *problem)
{
    Wait &wait = waits[static_cast<int>(what)];
    const bool known = strcmp(problem, wait.problem) == 0;
    if (!known || wait.since == 0)
        wait.since = GetCurrentTimestamp();
    strlcpy(wait.problem, problem, sizeof(wait.problem));
    if (!known)
        ereport(LOG, (errmsg("outbox relay: %s", problem)));
}

void
end_wait(Awaited what)
{
    waits[static_cast<int>(what)].since = 0;
}

void
show_as_last_error(const char *problem)
{
    last_problem_at = GetCurrentTimestamp();
    strlcpy(last_problem, problem, sizeof(last_problem));
}

void
remember_problem()
{
    SpinLockAcquire(&relay.slot->mutex);
    // What else a relay leaves, such as why it waits for an update, ends with its cause.
    if (relay.slot->report.ended_by_error)
    {
        last_problem_at = relay.slot->report.last_error_at;
        strlcpy(last_problem, relay.slot->report.last_error, sizeof(last_problem));
    }
    SpinLockRelease(&relay.slot->mutex);
}

void
leave_problem(const char *problem)
{
    SpinLockAcquire(&relay.slot->mutex);
    relay.slot->report.last_error_at = GetCurrentTimestamp();
    strlcpy(relay.slot->report.last_error, problem, sizeof(relay.slot->report.last_error));
    relay.slot->report.ended_by_error = true;
    SpinLockRelease(&relay.slot->mutex);
}

void
show_problem(RelayReport *report)
{
    show_if_newer(report, last_problem, last_problem_at);
    for (const Wait &wait : waits)
        show_if_newer(report, wait.problem, wait.since);
}

// Registered when PostgreSQL has cleaned up, so that it comes first of what exit() runs: handlers
// and destructors of libraries take down what librdkafka's threads still use, such as OpenSSL's
// locks. A client that does not end within its limit is left behind with its threads.
void
end_without_exit_handlers()
{
    on_proc_exit(
        [](int, Datum) { (void) on_exit([](int status, void *) { _exit(status); }, nullptr); }, 0);
}

void
exit_as(RelayExit reason)
{
    pg_atomic_write_u32(&relay.slot->relay_exit, static_cast<uint32>(reason));
    proc_exit(0);
}

// Tables of another version may mean something else. What asks for a relay at once is the last
// statement of every upgrade script.
void
stop_for_version(Installed installed, const char *version)
{
    char problem[256];
    snprintf(problem, sizeof(problem),
             "the extension is version %s here, the library serves %s: %s", version, OUTBOX_VERSION,
             version_remedy(installed));
    ereport(level_of(problem),
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
             errmsg("outbox relay waits in database %u: extension version %s, library version %s",
                    MyDatabaseId, version, OUTBOX_VERSION),
             installed == Installed::newer
                 ? errhint("Install the package of that version and restart PostgreSQL. Events are "
                           "kept until then.")
                 : errhint("Run ALTER EXTENSION outbox UPDATE. Events are kept until then.")));
    show_stopped(RelayState::update_required, problem);
    exit_as(RelayExit::update_required);
}

void
stop_for_a_person(const char *problem)
{
    ereport(level_of(problem),
            (errcode(ERRCODE_DATA_CORRUPTED), errmsg("outbox relay stopped: %s", problem),
             errhint("Nothing is published until this is put right, see docs/operations.md.")));
    show_stopped(RelayState::stopped, problem);
    exit_as(RelayExit::stopped);
}

} // namespace outbox
