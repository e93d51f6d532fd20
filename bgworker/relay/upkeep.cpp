// What the relay's process does beside the engine, each step at its own pace: restored events,
// expired rows, the ring, late attempts, summaries of new blocks.

#include "relay.h"

#include "bgworker/guard.h"
#include "bgworker/maintenance/expiry.h"
#include "bgworker/maintenance/late_attempts.h"
#include "bgworker/maintenance/maintenance.h"
#include "bgworker/maintenance/ring.h"
#include "bgworker/source/position/numbers.h"
#include "bgworker/source/position/restore.h"
#include "bgworker/source/relation_lock.h"
#include "bgworker/source/short_transaction.h"
#include "bgworker/source/subscription.h"

#include "extension/core/steady.h"

namespace outbox
{

namespace
{

constexpr int kMaintainMs = 1000;
constexpr int kLateMs = 10 * 1000;
constexpr std::int64_t kMillisecond = 1000; // of the steady clock
constexpr int kMoreSummariesMs = 100;       // each takes a twentieth of that

// Needs a transaction with an active snapshot.
void
settle_restored()
{
    char problem[256];
    const std::int64_t began = steady_now();
    const uint32 restores = pg_atomic_read_u32(&relay.slot->restores);
    const RestoreResult result = settle_restored_events(problem, sizeof(problem));
    if (result.locked)
        return;
    if (!result.undecided)
        pg_atomic_write_u32(&relay.slot->restores_seen, restores);
    relay.restoring_at = steady_now();
    relay.restoring_took = relay.restoring_at - began;
    if (result.broken)
        stop_for_operator(problem);
    // The tables were made anew, or it was deleted; the next process begins with another one.
    relay.restart = relay.restart || result.no_position;
    if (result.waiting)
        begin_wait(Awaited::restore, problem);
    else
        end_wait(Awaited::restore);
    if (!result.settled)
        return;
    relay.check_events = true;
    relay.parts->engine.deliveries_changed();
    relay.parts->engine.routes_changed(); // which reads all lines again
}

// What a crash empties would be published again, or not at all, or elsewhere. Of partitions emit()
// says so.
void
check_logged()
{
    constexpr const char *kTables[] = {"relay_position", "deliveries",     "restored_deliveries",
                                       "dump_rows",      "pauses",         "routes",
                                       "ring",           "ticks",          "subscription_history",
                                       "subscriptions",  "replay_requests"};
    // Which is the extension's is not asked each second.
    const Oid schema = get_namespace_oid("outbox", true);
    for (const char *table : kTables)
    {
        const Oid relation = OidIsValid(schema) ? get_relname_relid(table, schema) : InvalidOid;
        if (!OidIsValid(relation) || get_rel_persistence(relation) != RELPERSISTENCE_UNLOGGED)
            continue;
        char problem[160];
        snprintf(problem, sizeof(problem),
                 "outbox.%s is unlogged, a crash empties it; run alter table outbox.%s set logged, "
                 "and look what is in it",
                 table, table);
        stop_for_operator(problem);
    }
}

void
check_extension()
{
    char version[32];
    begin_transaction();
    const Installed installed = installed_version(version, sizeof(version));
    if (installed == Installed::same)
        check_logged();
    if (installed == Installed::same && serves_default())
    {
        check_numbers(); // restored events may get new ones
        settle_restored();
    }
    end_transaction();
    // The next process finds out what it can do here.
    relay.restart = relay.restart || installed == Installed::older || installed == Installed::newer;
}

// Those of `default` for the others, or its own.
void
look_at_subscriptions()
{
    begin_transaction();
    if (OidIsValid(get_extension_oid("outbox", true)) &&
        lock_with_indexes("subscriptions", AccessShareLock))
    {
        if (serves_default())
            claim_subscriptions();
        else
            relay.restart = relay.restart || subscription_changed();
    }
    end_transaction();
}

// A failure of one step leaves the others alone. f calls PostgreSQL.
template <typename F>
void
run_guarded(Guarded &guarded, F f)
{
    call_cpp([&] { (void) guarded.run([&] { from_postgres(f); }); });
}

// Counting the rows of a large dump takes a while, as does reading many that are not committed, and
// publishing waits meanwhile: a tenth of the time, unless the end of a restore would wait for
// longer than some seconds.
std::int64_t
pause_after_restoring(std::int64_t took)
{
    constexpr std::int64_t kPatienceUs = 10 * 1000 * kMillisecond;
    return Max(kMaintainMs * kMillisecond, Min(took * 10, Max(kPatienceUs, took * 2)));
}

// Rows of a dump have come: at once, but for that part of the time.
bool
is_look_due(std::int64_t now)
{
    return serves_default() &&
           pg_atomic_read_u32(&relay.slot->restores) !=
               pg_atomic_read_u32(&relay.slot->restores_seen) &&
           relay.restoring_at + relay.restoring_took * 10 <= now;
}

} // namespace

void
maintain()
{
    Parts &parts = *relay.parts;
    const std::int64_t now = steady_now();
    // Static: what an error leaves of a variable on the stack is not defined, see setjmp().
    static bool hurry;
    static int pause_ms;
    static bool any;
    if (relay.subscriptions_at <= now)
    {
        run_guarded(parts.subscribing, look_at_subscriptions);
        relay.subscriptions_at = now + kLateMs * kMillisecond;
    }
    if (serves_default() && relay.summarize_at <= now)
    {
        hurry = false;
        // A backlog goes out first.
        run_guarded(parts.summarizing,
                    [] {
                        hurry = summarize_new_blocks(current_partition()) &&
                                relay.round.step != StepResult::busy;
                    });
        relay.summarize_at = now + (hurry ? kMoreSummariesMs : kMaintainMs) * kMillisecond;
    }
    if (serves_default() && relay.maintain_ring_at <= now)
    {
        pause_ms = kMaintainMs;
        if (!relay.holds_default) // perhaps of how long events are kept
            run_guarded(parts.maintaining_ring,
                        [] { pause_ms = maintain_ring(relay.slot, GetCurrentTimestamp()); });
        relay.maintain_ring_at = now + pause_ms * kMillisecond;
    }
    if (relay.check_late_at <= now)
    {
        any = false;
        run_guarded(parts.finding_late, [] { any = make_late_attempts_due(); });
        if (any)
            parts.engine.deliveries_changed();
        relay.check_late_at = now + kLateMs * kMillisecond;
    }
    if (relay.maintain_at > now && !is_look_due(now))
        return;
    relay.restoring_took = 0;
    run_guarded(parts.restoring, check_extension);
    if (serves_default() && !relay.holds_default)
        run_guarded(parts.expiring, remove_expired);
    relay.maintain_at = steady_now() + pause_after_restoring(relay.restoring_took);
}

} // namespace outbox
