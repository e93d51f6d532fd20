// The launcher looks at what is (pg_database, the entries, the workers) and acts on the difference,
// on every wake-up and every few seconds: a missed signal costs time, never a relay.

#include "launcher.h"

#include "watch.h"

#include <csignal>

#include "extension/core/steady.h"

extern "C"
{
#include "access/htup_details.h"
#include "utils/ps_status.h"
}

namespace outbox
{

namespace
{

HTAB *without_extension; // databases that were looked at and have no extension
bool no_place;           // a database found all entries taken, this turn

Watch *
watch_database(Oid database)
{
    DatabaseSlot *slot = claim_slot(database);
    if (slot == nullptr)
    {
        no_place = true;
        return nullptr;
    }
    Watch *watch = &watches[slot - shared_state()->slots];
    if (watch->database != database)
    {
        if (watch->handle != nullptr)
            pfree(watch->handle);
        *watch = {};
        watch->database = database;
        watch->entry = &slot->relay;
        watch->wanted = true;
        (void) hash_search(without_extension, &database, HASH_REMOVE, nullptr);
    }
    return watch;
}

// Templates are left alone: a session in template1 would be in the way of every CREATE DATABASE. So
// are databases that allow no connections, and those that a DROP DATABASE left behind half done.
bool
may_have_relay(Form_pg_database database)
{
#ifdef DATCONNLIMIT_INVALID_DB
    if (database->datconnlimit == DATCONNLIMIT_INVALID_DB)
        return false;
#endif
    return database->datallowconn && !database->datistemplate;
}

// CREATE EXTENSION took it, in a database that gets no relay.
void
free_unwatched_slot(Oid database)
{
    DatabaseSlot *slot = find_slot(database);
    if (slot != nullptr && watches[slot - shared_state()->slots].database != database)
        (void) free_slot(slot);
}

// Brings the watches in line with pg_database.
void
update_watches()
{
    StartTransactionCommand();
    Relation relation = table_open(DatabaseRelationId, AccessShareLock);
    TableScanDesc scan = table_beginscan_catalog(relation, 0, nullptr);
    HeapTuple row;
    no_place = false;
    for (Watch &watch : watches)
        watch.seen = false;
    while ((row = heap_getnext(scan, ForwardScanDirection)) != nullptr)
    {
        Form_pg_database database = reinterpret_cast<Form_pg_database>(GETSTRUCT(row));
        if (!may_have_relay(database))
        {
            free_unwatched_slot(database->oid);
            continue;
        }
        DatabaseSlot *slot = find_slot(database->oid);
        const bool known_without =
            hash_search(without_extension, &database->oid, HASH_FIND, nullptr) != nullptr;
        if (slot == nullptr && known_without)
            continue;
        Watch *watch = watch_database(database->oid);
        if (watch == nullptr)
            continue;
        watch->seen = true;
        strlcpy(watch->name, NameStr(database->datname), sizeof(watch->name));
    }
    table_endscan(scan);
    table_close(relation, AccessShareLock);
    CommitTransactionCommand();
    (void) pgstat_report_stat(false);
}

// Returns whether a relay of the database was asked for just now.
bool
forget(Watch &watch)
{
    if (watch.handle != nullptr)
        pfree(watch.handle);
    const bool asked = free_slot(&slot_of(watch));
    watch = {};
    return asked;
}

// A database without the extension needs no entry; CREATE EXTENSION claims a new one.
void
retire_if_idle(Watch &watch)
{
    DatabaseSlot &slot = slot_of(watch);
    if (watch.wanted || is_running(watch) || pg_atomic_read_u32(&slot.relay_wanted) != 0)
        return;
    const Oid database = watch.database;
    if (!forget(watch))
        (void) hash_search(without_extension, &database, HASH_ENTER, nullptr);
}

bool
is_held(DatabaseSlot &slot)
{
    const uint32 holder = pg_atomic_read_u32(&slot.held_by);
    if (holder == 0)
        return false;
    if (BackendPidGetProc(static_cast<int>(holder)) != nullptr)
        return true;
    pg_atomic_write_u32(&slot.held_by, 0); // it died before it could let go
    return false;
}

int
count_starting()
{
    int starting = 0;
    for_each_watch(
        [&](RelayWatch &watch)
        {
            const bool is_new =
                steady_now() - watch.started_at < kMaxStartingMs * std::int64_t{1000};
            if (watch.handle != nullptr && is_new &&
                reported_state(*watch.entry) == RelayState::starting)
                starting++;
        });
    return starting;
}

void
forget_without_extension()
{
    if (without_extension != nullptr)
        hash_destroy(without_extension);
    HASHCTL control = {};
    control.keysize = sizeof(Oid);
    control.entrysize = sizeof(Oid);
    without_extension =
        hash_create("outbox databases without the extension", 64, &control, HASH_ELEM | HASH_BLOBS);
}

// Returns how long the launcher may sleep.
long
run_turn()
{
    if (pg_atomic_exchange_u32(&shared_state()->check_all_databases, 0) != 0)
        forget_without_extension();
    update_watches();
    long sleep_ms = kTurnMs;
    int starting = count_starting();
    for (Watch &watch : watches)
    {
        if (!OidIsValid(watch.database))
            continue;
        DatabaseSlot &slot = slot_of(watch);
        check_worker(watch);
        if (!watch.seen && !is_running(watch))
        {
            (void) forget(watch); // the database is gone, or gets no relay
            sleep_ms = no_place ? Min(sleep_ms, kBusyTurnMs) : sleep_ms;
            continue;
        }
        if (!watch.seen)
        {
            end_relay(&slot.relay); // it became a template, or allows no connections
            sleep_ms = Min(sleep_ms, kBusyTurnMs);
            continue;
        }
        // Of a relay that runs it is not known yet whether it has seen what was asked for.
        if (!is_running(watch) && pg_atomic_exchange_u32(&slot.relay_wanted, 0) != 0)
        {
            watch.wanted = true;
            watch.start_after = 0;
        }
        if (is_held(slot))
        {
            sleep_ms = Min(sleep_ms, kBusyTurnMs);
            continue;
        }
        if (!watch.wanted)
        {
            retire_if_idle(watch);
            sleep_ms = no_place ? Min(sleep_ms, kBusyTurnMs) : sleep_ms;
            continue;
        }
        if (is_running(watch))
            continue;
        const long wait = ms_to_start(watch);
        if (wait == 0 && starting < kMaxStarting)
        {
            start_relay(watch, static_cast<int>(&watch - watches), watch.name);
            starting++;
        }
        else
            sleep_ms = Min(sleep_ms, Max(wait, kBusyTurnMs));
    }
    sleep_ms = Min(sleep_ms, turn_subscriptions(starting));
    log_limits(no_place);
    return sleep_ms;
}

// PostgreSQL has a background worker ignore SIGHUP until its own code runs. A relay that was
// starting when the server read its files again may have what they said before.
void
note_reload()
{
    for_each_watch(
        [](RelayWatch &watch)
        {
            watch.misses_reload =
                watch.misses_reload ||
                (watch.handle != nullptr && reported_state(*watch.entry) == RelayState::starting);
        });
}

// Returns whether one of them cannot hear of it yet.
bool
tell_of_reload()
{
    bool waiting = false;
    for_each_watch(
        [&](RelayWatch &watch)
        {
            if (!watch.misses_reload)
                return;
            const uint32 pid = pg_atomic_read_u32(&watch.entry->pid);
            watch.misses_reload = watch.handle != nullptr && pid == 0;
            waiting = waiting || watch.misses_reload;
            if (watch.handle != nullptr && pid != 0)
                (void) kill(static_cast<pid_t>(pid), SIGHUP); // one that has ended needs it not
        });
    return waiting;
}

void
leave(int, Datum)
{
    pg_atomic_write_u32(&shared_state()->launcher_proc, 0);
}

} // namespace

void
register_launcher()
{
    BackgroundWorker worker = {};
    worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
    worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
    worker.bgw_restart_time = 5;
    snprintf(worker.bgw_library_name, sizeof(worker.bgw_library_name), "outbox");
    snprintf(worker.bgw_function_name, sizeof(worker.bgw_function_name), "outbox_launcher_main");
    snprintf(worker.bgw_name, BGW_MAXLEN, "outbox launcher");
    snprintf(worker.bgw_type, BGW_MAXLEN, "outbox launcher");
    RegisterBackgroundWorker(&worker);
}

} // namespace outbox

extern "C" PGDLLEXPORT void
outbox_launcher_main(Datum)
{
    using namespace outbox;
    pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
    pqsignal(SIGHUP, SignalHandlerForConfigReload);
    pqsignal(SIGINT, SIG_IGN); // pg_cancel_backend() of all sessions
    BackgroundWorkerUnblockSignals();
    before_shmem_exit(leave, 0);
    BackgroundWorkerInitializeConnection(nullptr, nullptr, 0);

    forget_without_extension();
    pg_atomic_write_u32(&shared_state()->launcher_proc, static_cast<uint32>(my_proc_number()) + 1);
    pgstat_report_appname("outbox launcher");

    const uint32 wait_event = named_wait_event("OutboxLauncherMain");
    pgstat_report_activity(STATE_IDLE, "keeping relays alive");
    while (!ShutdownRequestPending)
    {
        ResetLatch(MyLatch);
        CHECK_FOR_INTERRUPTS();
        if (ConfigReloadPending)
        {
            ConfigReloadPending = false;
            ProcessConfigFile(PGC_SIGHUP);
            note_reload();
        }
        long sleep_ms = run_turn();
        if (tell_of_reload())
            sleep_ms = Min(sleep_ms, kBusyTurnMs);
        (void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, sleep_ms,
                         wait_event);
    }
    // Not 0: then the postmaster would never start it again, and it may have been terminated
    // among all other sessions. In a shutdown nothing is started again.
    proc_exit(1);
}
