// How a relay's process ends, and what it leaves behind in shared memory.

#include "relay.h"

#include "bgworker/source/relation_lock.h"
#include "bgworker/source/short_transaction.h"
#include "bgworker/source/subscription.h"

namespace outbox
{

namespace
{

void
write_stopped(RelayState state, const char *problem)
{
    SpinLockAcquire(&relay.entry->mutex);
    relay.entry->report.state = state;
    relay.entry->report.ended_by_error = false;
    relay.entry->report.last_error_at = GetCurrentTimestamp();
    strlcpy(relay.entry->report.last_error, problem, sizeof(relay.entry->report.last_error));
    SpinLockRelease(&relay.entry->mutex);
}

// Logged once: the launcher starts a relay again every minute.
int
level_of(const char *problem)
{
    SpinLockAcquire(&relay.entry->mutex);
    const RelayReport before = relay.entry->report;
    SpinLockRelease(&relay.entry->mutex);
    return strcmp(before.last_error, problem) == 0 ? DEBUG1 : WARNING;
}

} // namespace

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
    pg_atomic_write_u32(&relay.entry->exit, static_cast<uint32>(reason));
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
             errmsg("%s waits in database %u: extension version %s, library version %s",
                    relay_title(), MyDatabaseId, version, OUTBOX_VERSION),
             installed == Installed::newer
                 ? errhint("Install the package of that version and restart PostgreSQL. Events are "
                           "kept until then.")
                 : errhint("Run ALTER EXTENSION outbox UPDATE. Events are kept until then.")));
    write_stopped(RelayState::update_required, problem);
    exit_as(RelayExit::update_required);
}

void
stop_for_operator(const char *problem)
{
    ereport(level_of(problem),
            (errcode(ERRCODE_DATA_CORRUPTED), errmsg("%s stopped: %s", relay_title(), problem),
             errhint("Nothing is published until this is fixed, see docs/operations.md.")));
    write_stopped(RelayState::stopped, problem);
    exit_as(RelayExit::stopped);
}

// The transaction may have ended the relay, and keep it from its row until it is over. The next
// process, a second later, looks again.
void
wait_for_change()
{
    write_stopped(RelayState::absent, "a transaction that changes the subscription has not ended: "
                                      "see pg_locks, pg_stat_activity and pg_prepared_xacts");
    exit_as(RelayExit::told_to);
}

namespace
{

// Null: none, or there is no extension.
const char *
find_missing_table()
{
    constexpr const char *kTables[] = {"relay_position", "deliveries", "pauses",
                                       "events",         "ring",       "ticks"};
    const char *missing = nullptr;
    begin_transaction();
    if (OidIsValid(get_extension_oid("outbox", true)))
        for (const char *table : kTables)
            if (missing == nullptr && !OidIsValid(find_own_relation(table)))
                missing = table;
    end_transaction();
    return missing;
}

} // namespace

[[noreturn]] void
stop_as_gone()
{
    // A transaction that makes the extension anew is seen for a moment before the caches hear of
    // it, which have the tables of before.
    constexpr int kLooks = 10;
    constexpr long kPauseUs = 50 * 1000;
    const char *missing = find_missing_table();
    for (int i = 1; i < kLooks && missing != nullptr; i++)
    {
        pg_usleep(kPauseUs);
        missing = find_missing_table();
    }
    if (missing != nullptr)
    {
        char problem[NAMEDATALEN + 96];
        snprintf(problem, sizeof(problem),
                 "outbox.%s is missing: it was dropped, renamed or taken from the extension",
                 missing);
        stop_for_operator(problem);
    }
    exit_as(RelayExit::no_extension);
}

} // namespace outbox
