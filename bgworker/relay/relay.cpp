// The relay's process: starts, waits, decides what is next, ends. One for each database.

#include <csignal>
#include <malloc.h>
#include <sys/eventfd.h>

#include "bgworker/core/sooner.h"

#include "relay.h"

#include "activity.h"
#include "alerts.h"
#include "guarded.h"
#include "numbers.h"
#include "session.h"

#include "bgworker/guard.h"
#include "bgworker/maintenance/expiry.h"
#include "bgworker/maintenance/late_attempts.h"
#include "bgworker/maintenance/maintenance.h"
#include "bgworker/maintenance/ring.h"
#include "bgworker/publishing/restore.h"
#include "bgworker/relation_lock.h"
#include "bgworker/short_transaction.h"

#include "extension/core/steady.h"
#include "extension/installed_version.h"
#include "extension/settings.h"

extern "C"
{
    PG_MODULE_MAGIC;
}

namespace outbox
{

Relay relay;

namespace
{

// Not every commit wakes the relay: COMMIT PREPARED of another version, a restore, a lost signal.
constexpr long kPollMs = 1000;
constexpr long kLockedMs = 100;
constexpr long kStandbyMs = 2;
constexpr int kDrainMs = 500;
constexpr int kReplayCloseMs = 300;
constexpr int kMaintainMs = 1000;
constexpr int kLateMs = 10 * 1000;
constexpr std::int64_t kMillisecond = 1000; // of the steady clock
constexpr int kKeptHeap = 32 * 1024 * 1024;
constexpr int kMoreSummariesMs = 100; // each takes a twentieth of that

void
leave(int, Datum)
{
    if (relay.replay != nullptr)
        relay.replay->drop_producer(kReplayCloseMs);
    if (relay.publisher != nullptr)
        relay.publisher->set_producer(nullptr);
    pg_atomic_write_u32(&relay.slot->relay_proc, 0);
    pg_atomic_write_u32(&relay.slot->relay_pid, 0);
    announce_position(relay.slot);
    wake_launcher();
}

void
show()
{
    RelayReport report = {};
    if (relay.publisher != nullptr)
        relay.publisher->fill_report(&report);
    report.state = relay.state;
    if (report.state == RelayState::running && relay.publisher->paused())
        report.state = RelayState::paused;
    else if (report.state == RelayState::running && relay.publisher->backing_off())
        report.state = RelayState::backing_off;
    else if (report.state == RelayState::running && relay.step == StepResult::standby)
        report.state = RelayState::waiting_standby;
    else if (report.state == RelayState::running &&
             (relay.step == StepResult::locked || relay.saved == SaveResult::locked))
        report.state = RelayState::waiting_lock;
    const char *problem = relay.config_error;
    if (problem[0] == '\0' && relay.publisher != nullptr)
        problem = relay.publisher->routes_problem();
    if (report.state == RelayState::running && problem[0] != '\0' && !relay.publisher->has_routes())
        report.state = RelayState::config_error;
    strlcpy(report.config_error, problem, sizeof(report.config_error));
    show_problem(&report);
    SpinLockAcquire(&relay.slot->mutex);
    relay.slot->report = report;
    SpinLockRelease(&relay.slot->mutex);
    show_activity(report.state, relay.publisher->caught_up());
    tell_alerts(relay.slot, report);
}

// Where backends look before they emit: one read for each event.
void
show_backlog()
{
    if (!relay.publisher->backlog_known())
        return;
    pg_atomic_write_u64(&relay.slot->backlog_base, relay.publisher->backlog_base());
    if (relay.publisher->backlog_counted())
        pg_atomic_write_u32(&relay.slot->backlog_counted, 1);
}

int
open_eventfd()
{
    const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0)
        ereport(ERROR, (errcode_for_file_access(), errmsg("outbox relay: eventfd failed: %m")));
    return fd;
}

// Each producer has a descriptor of its own: serving one would take the other's news away.
void
open_wait_set()
{
    relay.wake_fd = open_eventfd();
    relay.replay_fd = open_eventfd();
    relay.wait_set = create_wait_set(4);
    AddWaitEventToSet(relay.wait_set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, nullptr);
    AddWaitEventToSet(relay.wait_set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, nullptr, nullptr);
    AddWaitEventToSet(relay.wait_set, WL_SOCKET_READABLE, relay.wake_fd, nullptr, nullptr);
    AddWaitEventToSet(relay.wait_set, WL_SOCKET_READABLE, relay.replay_fd, nullptr, nullptr);
    call_cpp([] { relay.replay = new Replay(relay.replay_fd); });
}

void
wait(long timeout_ms)
{
    WaitEvent events[4];
    const int count = WaitEventSetWait(relay.wait_set, timeout_ms, events, lengthof(events),
                                       activity_wait_event());
    relay.look = relay.look || count == 0;
    for (int i = 0; i < count; i++)
    {
        if ((events[i].events & WL_LATCH_SET) == 0)
            continue;
        ResetLatch(MyLatch);
        relay.look = true;
    }
}

// What was published before goes out again, when nothing new waits.
long
replay_some(StepResult live)
{
    static TimestampTz last_published_at = 0;
    static std::int64_t live_published_at = 0; // the same, by the steady clock
    constexpr std::size_t kFew = 1000;         // on their way, as always under load
    const Publisher &publisher = *relay.publisher;
    const bool may_send = live == StepResult::idle && publisher.outstanding() < kFew &&
                          relay.state == RelayState::running && !publisher.paused() &&
                          !publisher.backing_off();
    const std::int64_t now = steady_now();
    if (publisher.last_published_at() != last_published_at)
        live_published_at = now;
    last_published_at = publisher.last_published_at();
    return relay.replay->step({relay.setup, may_send, live_published_at}, now);
}

void
note_lock()
{
    char problem[NAMEDATALEN + 64];
    if (table_in_the_way[0] == '\0')
        strlcpy(problem, "waiting for a lock on a table of outbox", sizeof(problem));
    else
        snprintf(problem, sizeof(problem), "waiting for a lock on outbox.%s", table_in_the_way);
    note_wait(Awaited::lock, problem);
}

// Returns when the position is to be written, in ms; -1: not before something happens. What cannot
// be written is remembered here, and nothing is published again as long as this process lives. So
// publishing goes on when the position cannot be written, as with a full disk, which lasts; for a
// lock, which somebody is about to let go, it waits.
long
save(bool at_once)
{
    static Guarded saving("writing outbox.relay_position");
    static Guarded ticking("writing outbox.ticks");
    static long wait_ms;
    wait_ms = -1;
    if (at_once)
        saving.retry_now();
    const bool ran =
        saving.run([at_once] { relay.saved = relay.publisher->save_if_due(at_once, &wait_ms); });
    if (saving.failing())
        relay.saved = SaveResult::done;
    if (ran && relay.saved == SaveResult::gone)
        exit_as(RelayExit::restart);
    if (ran && relay.saved == SaveResult::locked)
    {
        note_lock();
        return kLockedMs;
    }
    if (ran)
        (void) ticking.run([] { relay.publisher->tick_if_due(); });
    return saving.failing() ? saving.due_within_ms() : wait_ms;
}

// Ends the process: without the extension there is nothing to do, with a part of it a person has.
[[noreturn]] void
stop_as_gone()
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
    if (missing != nullptr)
    {
        char problem[NAMEDATALEN + 96];
        snprintf(problem, sizeof(problem),
                 "outbox.%s is missing: it was dropped, renamed or taken from the extension",
                 missing);
        stop_for_a_person(problem);
    }
    exit_as(RelayExit::no_extension);
}

// What is to be set aside and cannot be, as with a full disk, holds up the stream, and nothing of
// it goes out again. Other errors end the relay.
StepResult
publish_some(TimestampTz now, long *wait_ms)
{
    constexpr int64 kLongestPauseMs = 5000;
    static Guarded setting_aside("writing outbox.deliveries", kLongestPauseMs);
    static long recover_ms;
    static StepResult step;
    Publisher &publisher = *relay.publisher;
    if (!setting_aside.is_due())
    {
        *wait_ms = setting_aside.due_within_ms();
        return StepResult::full;
    }
    recover_ms = -1;
    step = StepResult::full;
    const std::uint64_t writes = publisher.writes();
    const bool good = setting_aside.watch(
        [now]
        {
            recover_ms = relay.publisher->recover(now);
            if (!relay.publisher->has_producer() && relay.state == RelayState::running)
                reconnect_kafka();
            // What is published behind a position that somebody has locked would come again after
            // a crash.
            step = relay.saved == SaveResult::locked ? StepResult::locked
                                                     : relay.publisher->publish(relay.look);
        },
        [] { return take_write_failure(); });
    if (!good)
        publisher.rolled_back();
    else if (setting_aside.failing() && publisher.writes() > writes)
        setting_aside.note_success();
    *wait_ms = good ? recover_ms : setting_aside.due_within_ms();
    return good ? step : StepResult::full;
}

// One round: hear Kafka, hand over, save. Returns how long to wait for the next one at most.
long
run_round()
{
    Publisher &publisher = *relay.publisher;
    if (pg_atomic_exchange_u32(&relay.slot->deliveries_changed, 0) != 0)
    {
        publisher.reload_deliveries();
        relay.replay->look_soon();
    }
    (void) publisher.serve();
    const TimestampTz now = GetCurrentTimestamp();
    long wait_ms = -1;
    const StepResult step = publish_some(now, &wait_ms);
    if (step == StepResult::locked && relay.saved != SaveResult::locked)
        note_lock();
    relay.step = step;
    if (step != StepResult::busy)
        publisher.send_now();
    switch (step)
    {
    case StepResult::busy:
        wait_ms = 0;
        break;
    case StepResult::idle:
        relay.look = false;
        break;
    case StepResult::full:
        break;
    case StepResult::standby:
        wait_ms = sooner(wait_ms, kStandbyMs);
        break;
    case StepResult::locked:
        wait_ms = sooner(wait_ms, kLockedMs);
        break;
    case StepResult::gone:
        stop_as_gone();
    }
    wait_ms = sooner(wait_ms, publisher.redeliver_within_ms(now));
    // Before those who wait for the position hear of it.
    relay.stats->flush(publisher.idle());
    show_backlog();
    const long save_ms = save(false);
    if (step != StepResult::locked && relay.saved != SaveResult::locked)
        end_wait(Awaited::lock);
    show();
    wait_ms = sooner(wait_ms, replay_some(step));
    const long turn_ms =
        Max(0L, static_cast<long>((relay.turn_ring_at - steady_now()) / kMillisecond));
    return sooner(sooner(sooner(wait_ms, save_ms), turn_ms),
                  sooner(publisher.serve_within_ms(), kPollMs));
}

// Needs a transaction with an active snapshot.
void
settle_restored()
{
    char problem[256];
    const std::int64_t began = steady_now();
    const RestoreResult result = settle_restored_events(problem, sizeof(problem));
    if (result.locked)
        return;
    relay.counting_took = steady_now() - began;
    if (result.broken)
        stop_for_a_person(problem);
    if (result.waiting)
        note_wait(Awaited::restore, problem);
    else
        end_wait(Awaited::restore);
    if (!result.settled)
        return;
    relay.look = true;
    relay.publisher->reload_deliveries();
    relay.publisher->reload_routes(); // which reads all lines again
}

void
look_at_extension()
{
    char version[32];
    begin_transaction();
    const Installed installed = installed_version(version, sizeof(version));
    if (installed == Installed::same)
    {
        check_numbers(); // restored events may get new ones
        settle_restored();
    }
    end_transaction();
    // Starting again, the relay finds out what it can do here.
    relay.restart = relay.restart || installed == Installed::older || installed == Installed::newer;
}

// Counting the rows of a large dump takes a while, as does looking at many that are not committed,
// and publishing waits meanwhile: a tenth of the time, unless somebody would wait for longer than
// some seconds for the end of his restore.
std::int64_t
pause_after_counting(std::int64_t took)
{
    constexpr std::int64_t kPatienceUs = 10 * 1000 * kMillisecond;
    return Max(kMaintainMs * kMillisecond, Min(took * 10, Max(kPatienceUs, took * 2)));
}

void
maintain()
{
    static Guarded summarizing("summarizing blocks of outbox.events");
    static Guarded turning("maintaining the ring of outbox.events");
    static Guarded looking("looking for restored events");
    static Guarded expiring("removing expired rows");
    const std::int64_t now = steady_now();
    if (relay.summarize_at <= now)
    {
        static bool hurry;
        hurry = false;
        // A backlog goes out first.
        (void) summarizing.run(
            [] { hurry = summarize_new_blocks(ring_slot()) && relay.step != StepResult::busy; });
        relay.summarize_at = now + (hurry ? kMoreSummariesMs : kMaintainMs) * kMillisecond;
    }
    if (relay.turn_ring_at <= now)
    {
        static int pause_ms;
        pause_ms = kMaintainMs;
        (void) turning.run([] { pause_ms = turn_ring(relay.slot, GetCurrentTimestamp()); });
        relay.turn_ring_at = now + pause_ms * kMillisecond;
    }
    if (relay.look_late_at <= now)
    {
        static Guarded hurrying("looking for attempts that are late");
        (void) hurrying.run(
            []
            {
                if (make_late_attempts_due())
                    relay.publisher->reload_deliveries();
            });
        relay.look_late_at = now + kLateMs * kMillisecond;
    }
    if (relay.maintain_at > now)
        return;
    relay.counting_took = 0;
    (void) looking.run(look_at_extension);
    (void) expiring.run(remove_expired);
    relay.maintain_at = steady_now() + pause_after_counting(relay.counting_took);
}

void
run()
{
    while (!ShutdownRequestPending && !relay.restart)
    {
        CHECK_FOR_INTERRUPTS();
        if (ConfigReloadPending)
        {
            ConfigReloadPending = false;
            reload_settings();
            relay.turn_ring_at = 0; // outbox.retention may be another
            continue;
        }
        // First, so that a restored backlog goes out before what was emitted after the restore.
        maintain();
        const long retry_ms = retry_settings();
        if (relay.restart)
            break;
        const long wait_ms = sooner(run_round(), retry_ms);
        (void) pgstat_report_stat(false);
        wait(wait_ms);
    }
}

// What Kafka acknowledges in the last moments need not be sent again.
void
drain()
{
    const std::int64_t deadline = steady_now() + kDrainMs * kMillisecond;
    for (;;)
    {
        (void) relay.publisher->serve();
        relay.replay->hear();
        const long left = static_cast<long>((deadline - steady_now()) / kMillisecond);
        const bool waits = relay.publisher->outstanding() > 0 || relay.replay->is_waiting();
        if (!waits || left <= 0 || relay.publisher->backing_off())
            break;
        wait(Min(left, 100L));
    }
    relay.stats->flush(true);
    (void) save(true);
    static Guarded replaying("writing outbox.replay_requests");
    (void) replaying.run([] { relay.replay->save_now(steady_now()); });
    show_backlog();
}

void
prepare_session()
{
    drop_other_settings();
    SetConfigOption("search_path", "pg_catalog", PGC_SUSET, PGC_S_OVERRIDE);
    // Who may only create triggers on our tables could have one called with the relay's rights;
    // with this, triggers run that an owner has marked for it, see refuse_foreign_owners().
    SetConfigOption("session_replication_role", "replica", PGC_SUSET, PGC_S_OVERRIDE);
    SetConfigOption("row_security", "off", PGC_SUSET, PGC_S_OVERRIDE);
    // A position that is lost in a crash only means that events are published again.
    SetConfigOption("synchronous_commit", "off", PGC_SUSET, PGC_S_OVERRIDE);
    SetConfigOption("lock_timeout", "1s", PGC_SUSET, PGC_S_OVERRIDE);
    SetConfigOption("statement_timeout", "0", PGC_SUSET, PGC_S_OVERRIDE);
    SetConfigOption("default_transaction_isolation", "read committed", PGC_SUSET, PGC_S_OVERRIDE);
    SetConfigOption("default_transaction_read_only", "off", PGC_SUSET, PGC_S_OVERRIDE);
#if PG_VERSION_NUM >= 170000
    SetConfigOption("transaction_timeout", "0", PGC_SUSET, PGC_S_OVERRIDE);
#endif
    pgstat_report_appname("outbox relay");
}

// librdkafka takes and frees some seven pieces of memory for each record. As the library is set by
// default, the heap is given back to the kernel and asked for again all the while, a tenth of the
// time that a drain takes. What is in flight is bounded, and so is what is kept.
void
keep_heap()
{
    (void) mallopt(M_TRIM_THRESHOLD, kKeptHeap);
    (void) mallopt(M_MMAP_THRESHOLD, kKeptHeap);
    (void) mallopt(M_MXFAST, 0);
}

// Begins the transaction in which the tables are read, once nobody has locked one of them.
void
begin_loading()
{
    for (;;)
    {
        begin_transaction();
        // What is missing is found out later.
        if (lock_with_indexes("relay_position", RowExclusiveLock) &&
            lock_with_indexes("deliveries", RowExclusiveLock) &&
            lock_with_indexes("ring", AccessShareLock) &&
            lock_with_indexes("dump_rows", AccessShareLock) && lock_events(AccessShareLock))
            return;
        end_transaction();
        note_lock();
        RelayReport report = {};
        report.state = RelayState::waiting_lock;
        show_problem(&report);
        SpinLockAcquire(&relay.slot->mutex);
        relay.slot->report = report;
        SpinLockRelease(&relay.slot->mutex);
        (void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, kLockedMs,
                         named_wait_event("OutboxRelayLock"));
        ResetLatch(MyLatch);
        CHECK_FOR_INTERRUPTS();
        if (ShutdownRequestPending)
            exit_as(RelayExit::told_to);
    }
}

// Ends the process when there is nothing to relay here.
void
load()
{
    char problem[256];
    static StoredPosition stored;
    begin_loading();
    char version[32];
    const Installed installed = installed_version(version, sizeof(version));
    if (installed == Installed::missing)
        exit_as(RelayExit::no_extension);
    if (installed != Installed::same)
        stop_for_version(installed, version);
    const LoadResult result = load_position(&stored, problem, sizeof(problem));
    relay.database_settings = read_database_settings(nullptr, nullptr);
    relay.applied_settings = relay.database_settings;
    load_ring(relay.slot);
    if (result != LoadResult::broken)
        learn_numbers(stored.position.last_seq);
    end_transaction();
    if (result == LoadResult::broken)
        stop_for_a_person(problem);
    call_cpp(
        [&]
        {
            relay.setup = new KafkaSetup;
            relay.stats = new Stats;
            relay.publisher = new Publisher(
                static_cast<std::size_t>(settings.max_in_flight),
                static_cast<std::size_t>(settings.max_in_flight_kb) * 1024, *relay.stats);
            relay.publisher->start(stored, relay.slot);
        });
    relay.stats->attach(MyDatabaseId);
}

// After an ERROR: leaves what it was, and ends when what Kafka has acknowledged is in the position,
// so that the next relay publishes nothing again.
[[noreturn]] void
give_up()
{
    constexpr long kSaveAgainMs = 1000;
    char problem[512];
    end_failed_transaction("the relay has ended", true, problem, sizeof(problem));
    leave_problem(problem);
    if (relay.publisher != nullptr && relay.wait_set != nullptr)
    {
        drain();
        while (relay.publisher->has_unsaved() && !ShutdownRequestPending)
        {
            wait(kSaveAgainMs);
            (void) relay.publisher->serve();
            (void) save(true);
        }
    }
    proc_exit(1);
}

void
attach(Datum slot_number)
{
    if (shared_state() == nullptr || shared_state()->layout != kSharedLayout ||
        strcmp(shared_state()->version, OUTBOX_VERSION) != 0 ||
        stats_memory()->layout != kStatsLayout)
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("the preloaded outbox library does not fit the relay's"),
                        errhint("Restart PostgreSQL after an update of the outbox package.")));
    relay.slot = &shared_state()->slots[DatumGetInt32(slot_number)];
    remember_problem();
    relay.state = RelayState::starting;
    relay.look = true;
    // A launcher that was started anew does not know of a relay that was not here yet.
    uint32 other = 0;
    while (!pg_atomic_compare_exchange_u32(&relay.slot->relay_pid, &other,
                                           static_cast<uint32>(MyProcPid)))
        if (kill(static_cast<pid_t>(other), 0) == 0)
        {
            ereport(LOG, (errmsg("outbox relay ends: process %u does its work already", other)));
            proc_exit(0);
        }
    before_shmem_exit(leave, 0);
    pg_atomic_write_u32(&relay.slot->relay_proc, static_cast<uint32>(my_proc_number()) + 1);
    // See vacate() in extension/utility_hook.cpp.
    pg_memory_barrier();
    if (pg_atomic_read_u32(&relay.slot->held_by) != 0)
        exit_as(RelayExit::told_to);
}

} // namespace

} // namespace outbox

extern "C" PGDLLEXPORT void
outbox_relay_main(Datum slot_number)
{
    using namespace outbox;
    end_without_exit_handlers();
    pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
    pqsignal(SIGHUP, SignalHandlerForConfigReload);
    BackgroundWorkerUnblockSignals();
    attach(slot_number);
    remember_server_settings();
    BackgroundWorkerInitializeConnectionByOid(pg_atomic_read_u32(&relay.slot->database), InvalidOid,
                                              0);
    prepare_session();
    keep_heap();
    PG_TRY();
    {
        load();
        open_wait_set();
        connect_kafka();
        run();
    }
    PG_CATCH();
    {
        give_up();
    }
    PG_END_TRY();
    drain();
    exit_as(relay.restart ? RelayExit::restart : RelayExit::told_to);
}
