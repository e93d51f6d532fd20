// How a relay's process starts: attaches to its place in shared memory, and reads the position.

#include <csignal>
#include <malloc.h>

#include "relay.h"

#include "bgworker/guard.h"
#include "bgworker/maintenance/ring.h"
#include "bgworker/source/deliveries/lane_key.h"
#include "bgworker/source/position/numbers.h"
#include "bgworker/source/position/position_store.h"
#include "bgworker/source/relation_lock.h"
#include "bgworker/source/short_transaction.h"
#include "bgworker/source/subscription.h"

#include "extension/shared/settings.h"
#include "extension/shared/sink_libraries.h"

namespace outbox
{

Relay relay;

Parts::Parts(DatabaseSlot *slot, RelayEntry *entry)
    : source(slot, entry), replays(source),
      engine({source, deliveries, replays, destination, clock, stats},
             {max_events_in_flight(), static_cast<std::size_t>(settings.max_in_flight_kb) * 1024}),
      summarizing("summarizing blocks of outbox.events", source, clock),
      maintaining_ring("maintaining the ring of outbox.events", source, clock),
      restoring("looking for restored events", source, clock),
      expiring("removing expired rows", source, clock),
      finding_late("looking for attempts that are late", source, clock),
      subscribing("looking at subscriptions", source, clock),
      pausing("writing outbox.pauses", source, clock)
{
}

namespace
{

constexpr long kLockedMs = 100;
constexpr int kCloseMs = 100; // each of up to three producers
constexpr int kKeptHeap = 32 * 1024 * 1024;

volatile sig_atomic_t told_to_end = 0;

void
detach(int, Datum)
{
    if (relay.parts != nullptr)
        relay.parts->engine.close(kCloseMs);
    // That is no failure, after which the launcher would wait.
    uint32 exit = static_cast<uint32>(RelayExit::unexpected);
    if (told_to_end != 0)
        (void) pg_atomic_compare_exchange_u32(&relay.entry->exit, &exit,
                                              static_cast<uint32>(RelayExit::told_to));
    pg_atomic_write_u32(&relay.entry->proc, 0);
    pg_atomic_write_u32(&relay.entry->pid, 0);
    announce_position(relay.entry);
    wake_launcher();
}

// Who detaches or attaches `default` locks the table, so that its relay reads it behind the commit.
LOCKMODE
lock_of_history()
{
    return serves_default() ? RowShareLock : AccessShareLock;
}

// Begins the transaction in which the tables are read, once none of them is locked.
void
begin_loading()
{
    for (;;)
    {
        begin_transaction();
        // A missing table is reported later.
        if (lock_with_indexes("relay_position", RowExclusiveLock) &&
            lock_with_indexes("deliveries", RowExclusiveLock) &&
            lock_with_indexes("lane_key", RowExclusiveLock) &&
            lock_with_indexes("subscriptions", RowShareLock) &&
            lock_with_indexes("subscription_history", lock_of_history()) &&
            lock_with_indexes("ring", AccessShareLock) &&
            lock_with_indexes("dump_rows", AccessShareLock) && lock_events(AccessShareLock))
            return;
        end_transaction();
        begin_lock_wait();
        RelayReport report = {};
        report.state = RelayState::waiting_lock;
        add_last_error(&report);
        write_report(report);
        (void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, kLockedMs,
                         named_wait_event("OutboxRelayLock"));
        ResetLatch(MyLatch);
        CHECK_FOR_INTERRUPTS();
        if (ShutdownRequestPending)
            exit_as(RelayExit::told_to);
    }
}

// Numbers from kMaxDatabases on are those of subscriptions besides `default`.
void
find_place(int number)
{
    if (number < kMaxDatabases)
    {
        relay.slot = &shared_state()->slots[number];
        relay.entry = &relay.slot->relay;
        return;
    }
    SubscriptionSlot &place = shared_state()->subscriptions[number - kMaxDatabases];
    relay.slot = find_slot(pg_atomic_read_u32(&place.database));
    if (relay.slot == nullptr)
        proc_exit(0); // its database was dropped
    relay.entry = &place.relay;
    serve_subscription(MemoryContextStrdup(TopMemoryContext, place.name));
}

// Ends the process when the subscription is not there. One that is being changed is looked at
// again by the next process.
void
load_subscription()
{
    constexpr const char *kDefaultSink = "kafka";
    if (serves_default())
    {
        relay.kind = sink_kind(kDefaultSink);
        return;
    }
    Datum options;
    const char *sink;
    switch (read_subscription(&sink, &options))
    {
    case SubscriptionRow::held:
        wait_for_change();
    case SubscriptionRow::detached:
    case SubscriptionRow::missing:
        exit_as(RelayExit::no_extension);
    case SubscriptionRow::there:
    {
        const MemoryContext before = MemoryContextSwitchTo(TopMemoryContext);
        relay.options = DatumGetJsonbPCopy(options);
        (void) MemoryContextSwitchTo(before);
        relay.kind = sink_kind(sink);
        if (relay.kind == nullptr)
            ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
                            errmsg("outbox relay: there is no sink \"%s\"", sink)));
        apply_subscription_options(*relay.kind, relay.options);
    }
    }
    pgstat_report_appname(psprintf("outbox relay %s", subscription_name()));
}

} // namespace

void
end_while_starting(int signal)
{
    told_to_end = 1;
    die(signal);
}

void
attach(Datum relay_number)
{
    if (shared_state() == nullptr || shared_state()->layout != kSharedLayout ||
        strcmp(shared_state()->version, OUTBOX_VERSION) != 0 ||
        stats_memory()->layout != kStatsLayout)
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("the preloaded outbox library does not match the relay's"),
                        errhint("Restart PostgreSQL after an update of the outbox package.")));
    find_place(DatumGetInt32(relay_number));
    inherit_last_error();
    relay.state = RelayState::starting;
    relay.check_events = true;
    // A launcher that was restarted may start a second relay.
    uint32 other = 0;
    while (
        !pg_atomic_compare_exchange_u32(&relay.entry->pid, &other, static_cast<uint32>(MyProcPid)))
        if (kill(static_cast<pid_t>(other), 0) == 0)
        {
            ereport(LOG, (errmsg("%s ends: process %u is the relay of this database already",
                                 relay_title(), other)));
            proc_exit(0);
        }
    before_shmem_exit(detach, 0);
    pg_atomic_write_u32(&relay.entry->proc, static_cast<uint32>(my_proc_number()) + 1);
    // See vacate() in extension/launcher/utility_hook.cpp.
    pg_memory_barrier();
    if (pg_atomic_read_u32(&relay.slot->held_by) != 0)
        exit_as(RelayExit::told_to);
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
    load_subscription();
    const LoadResult result = load_position(&stored, problem, sizeof(problem));
    relay.database_settings = read_database_settings(nullptr, nullptr);
    relay.applied_settings = relay.database_settings;
    if (result == LoadResult::missing) // one of a copied database, whose relay forgets it
        exit_as(RelayExit::no_extension);
    if (serves_default())
    {
        read_default_history();
        claim_subscriptions(); // those that are not a copied database's original's
        load_ring(relay.slot);
    }
    load_lane_key();
    if (result != LoadResult::broken)
        learn_numbers(stored.position.last_seq);
    end_transaction();
    if (result == LoadResult::broken)
        stop_for_operator(problem);
    call_cpp(
        [&]
        {
            relay.parts = new Parts(relay.slot, relay.entry);
            // Events since the start of the server come after the position.
            relay.parts->engine.start(stored,
                                      {pg_atomic_read_u64(&relay.entry->backlog_base),
                                       pg_atomic_read_u32(&relay.entry->backlog_counted) != 0});
        });
    relay.parts->stats.attach(MyDatabaseId);
}

} // namespace outbox
