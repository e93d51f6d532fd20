// The relay's process: one for each database. Starts, goes its rounds, ends.

#include "relay.h"

#include "bgworker/engine/common/change_pace.h"
#include "bgworker/engine/common/sooner.h"

#include "activity.h"
#include "session.h"

#include "bgworker/guard.h"
#include "bgworker/source/process.h"
#include "bgworker/source/short_transaction.h"
#include "bgworker/source/subscription.h"

#include "extension/core/steady.h"
#include "extension/shared/refused_settings.h"

extern "C"
{
    PG_MODULE_MAGIC;
}

namespace outbox
{

namespace
{

// Not every commit wakes the relay: COMMIT PREPARED of another version, a restore, a lost signal.
constexpr long kPollMs = 1000;
// For a subscription besides `default`, as there may be many of them: a restore is heard of by
// `default`.
constexpr long kPollSubscriptionMs = 5000;
constexpr int kDrainMs = 500;
constexpr std::int64_t kMillisecond = 1000; // of the steady clock

// While commits come as fast as this, reports of the sinks are heard with the next commit, or so
// much later: to wake up for each takes processor time that events wait for.
constexpr std::int64_t kFast = 2 * kMillisecond;
constexpr long kReportsMs = 5;

struct Commits
{
    WaitEventSet *wait_set; // without the sinks
    std::int64_t last_at;   // by the steady clock
    bool fast;
};
Commits commits;

// Those of outbox.deliveries and outbox.pauses. A look reads which lanes are blocked, all of them.
ChangePace changes;

void
open_wait_set()
{
    commits.wait_set = create_wait_set(2);
    AddWaitEventToSet(commits.wait_set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, nullptr);
    AddWaitEventToSet(commits.wait_set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, nullptr, nullptr);
    relay.wait_set = create_wait_set(5);
    AddWaitEventToSet(relay.wait_set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, nullptr);
    AddWaitEventToSet(relay.wait_set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, nullptr, nullptr);
    for (const Destination::Use use :
         {Destination::Use::stream, Destination::Use::replay, Destination::Use::redelivery})
    {
        const int fd = relay.parts->destination.wake_fd(use);
        if (fd >= 0)
            AddWaitEventToSet(relay.wait_set, WL_SOCKET_READABLE, fd, nullptr, nullptr);
    }
}

void
wait(long timeout_ms)
{
    const bool reports_wait = commits.fast && relay.round.step == StepResult::idle &&
                              relay.parts->destination.may_hear_late();
    WaitEvent events[5];
    const int count = WaitEventSetWait(reports_wait ? commits.wait_set : relay.wait_set,
                                       reports_wait ? sooner(timeout_ms, kReportsMs) : timeout_ms,
                                       events, lengthof(events), activity_wait_event());
    if (count == 0)
        commits.fast = false;
    relay.check_events = relay.check_events || (count == 0 && !reports_wait);
    for (int i = 0; i < count; i++)
    {
        if ((events[i].events & WL_LATCH_SET) == 0)
            continue;
        ResetLatch(MyLatch);
        relay.check_events = true;
        const std::int64_t now = steady_now();
        commits.fast = now - commits.last_at < kFast;
        commits.last_at = now;
    }
}

// Whether to look at them now.
bool
hear_of_changes()
{
    const uint32 told = pg_atomic_exchange_u32(&relay.entry->deliveries_changed, 0);
    if ((told & kDeliveriesChanged) != 0)
        changes.note();
    if ((told & kDeliveriesPerhapsChanged) != 0)
        changes.note_possible();
    const std::int64_t now = steady_now();
    if (!changes.is_due(now))
        return false;
    relay.subscriptions_at = 0;
    changes.begin(now);
    return true;
}

// One round of the engine, and what comes of it. Returns how long to wait for the next one at most.
long
run_round()
{
    Engine &engine = relay.parts->engine;
    const bool look = hear_of_changes();
    if (look)
        engine.deliveries_changed();
    call_cpp([&] { relay.round = engine.round(relay.check_events); });
    if (look)
        changes.end(steady_now());
    if (relay.round.step == StepResult::gone)
        stop_as_gone();
    if (relay.round.saved == SaveResult::gone)
        exit_as(RelayExit::restart);
    check_connection();
    if (engine.gone() != nullptr)
        stop_for_destination(*engine.gone());
    relay.restart = relay.restart || relay.parts->deliveries.may_start_again();
    if (waits_for_lock())
        begin_lock_wait();
    else
        end_wait(Awaited::lock);
    if (relay.round.step == StepResult::idle)
        relay.check_events = false;
    report_state();
    long replay_ms = -1;
    call_cpp([&] { replay_ms = engine.replay(); });
    const std::int64_t turn_at = serves_default()
                                     ? Min(relay.maintain_ring_at, relay.subscriptions_at)
                                     : relay.subscriptions_at;
    const long turn_ms = Max(0L, static_cast<long>((turn_at - steady_now()) / kMillisecond));
    return sooner(sooner(sooner(relay.round.wait_ms, replay_ms), changes.wait_ms(steady_now())),
                  sooner(turn_ms, serves_default() ? kPollMs : kPollSubscriptionMs));
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
            relay.maintain_ring_at = 0; // outbox.retention may be another
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

// What is acknowledged in the last moments need not be sent again.
SaveResult
drain()
{
    const std::int64_t deadline = steady_now() + kDrainMs * kMillisecond;
    for (;;)
    {
        bool more = false;
        call_cpp([&] { more = relay.parts->engine.hear_last(); });
        const long left = static_cast<long>((deadline - steady_now()) / kMillisecond);
        if (!more || left <= 0)
            break;
        wait(Min(left, 100L));
    }
    SaveResult saved = SaveResult::done;
    call_cpp([&] { saved = relay.parts->engine.save_last(); });
    return saved;
}

// After an ERROR: leaves what it was, and ends when what was acknowledged is in the position,
// so that the next relay publishes nothing again.
[[noreturn]] void
give_up()
{
    constexpr long kSaveAgainMs = 1000;
    char problem[512];
    end_failed_transaction("the relay has ended", true, problem, sizeof(problem));
    leave_last_error(problem);
    if (relay.parts != nullptr && relay.wait_set != nullptr)
    {
        // Without its row, as when the extension was dropped, no position waits to be written.
        static SaveResult saved = SaveResult::done;
        saved = drain();
        while (saved != SaveResult::gone && relay.parts->engine.has_unsaved() &&
               !ShutdownRequestPending)
        {
            wait(kSaveAgainMs);
            call_cpp(
                []
                {
                    (void) relay.parts->engine.hear_last();
                    saved = relay.parts->engine.save_last();
                });
        }
    }
    proc_exit(1);
}

// All that the process of a subscription besides `default` logs says whose it is.
void
name_in_log()
{
    static ErrorContextCallback context = {};
    if (serves_default())
        return;
    context.callback = [](void *) { errcontext("subscription \"%s\"", subscription_name()); };
    context.previous = error_context_stack;
    error_context_stack = &context;
}

} // namespace

} // namespace outbox

extern "C" PGDLLEXPORT void
outbox_relay_main(Datum relay_number)
{
    using namespace outbox;
    end_without_exit_handlers();
    process_hooks = {report_problem, stop_for_operator};
    pqsignal(SIGTERM, end_while_starting);
    pqsignal(SIGHUP, SignalHandlerForConfigReload);
    outlive_cancellation();
    BackgroundWorkerUnblockSignals();
    attach(relay_number);
    name_in_log();
    keep_server_settings();
    keep_refused_settings();
    BackgroundWorkerInitializeConnectionByOid(pg_atomic_read_u32(&relay.slot->database), InvalidOid,
                                              0);
    prepare_session();
    pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
    keep_heap();
    PG_TRY();
    {
        load();
        connect_sink();
        open_wait_set();
        run();
    }
    PG_CATCH();
    {
        give_up();
    }
    PG_END_TRY();
    (void) drain();
    exit_as(relay.restart ? RelayExit::restart : RelayExit::told_to);
}
