// One relay's process: when it is started, and what its end means.

#include "watch.h"

#include "extension/core/steady.h"

namespace outbox
{

Watch watches[kMaxDatabases];
RelayWatch subscription_watches[kMaxAllSubscriptions];

namespace
{

constexpr int kFirstPauseMs = 1000;
constexpr int kLongestPauseMs = 60 * 1000;
constexpr int kHealthyMs = 60 * 1000;
constexpr std::int64_t kKeepsWorkerMs = 5000; // after the end of the pause

// A moment of the steady clock.
std::int64_t
in_ms(std::int64_t pause)
{
    return steady_now() + pause * 1000;
}

void
pause_after_failure(RelayWatch &watch)
{
    if (steady_now() - watch.started_at >= kHealthyMs * std::int64_t{1000})
        watch.failures = 0;
    watch.failures = Min(watch.failures + 1, 16);
    const int pause = Min(kFirstPauseMs << Min(watch.failures - 1, 6), kLongestPauseMs);
    watch.start_after = in_ms(pause);
}

void
record_exit(RelayWatch &watch)
{
    switch (static_cast<RelayExit>(pg_atomic_read_u32(&watch.entry->exit)))
    {
    case RelayExit::no_extension:
        watch.wanted = false;
        report_state(*watch.entry, RelayState::no_extension);
        break;
    case RelayExit::restart:
        watch.start_after = 0;
        break;
    case RelayExit::told_to:
        report_state(*watch.entry, RelayState::absent);
        watch.start_after = in_ms(kFirstPauseMs);
        break;
    case RelayExit::stopped:
        report_state(*watch.entry, RelayState::stopped);
        watch.start_after = in_ms(kLongestPauseMs);
        break;
    case RelayExit::update_required:
        report_state(*watch.entry, RelayState::update_required);
        watch.start_after = in_ms(kLongestPauseMs);
        break;
    case RelayExit::unexpected:
        report_state(*watch.entry, RelayState::absent);
        pause_after_failure(watch);
        break;
    }
}

bool
is_of_default(const RelayWatch &watch)
{
    bool found = false;
    for (const Watch &other : watches)
        found = found || &watch == &other;
    return found;
}

bool
keeps_worker(const RelayWatch &watch)
{
    return watch.keeps_worker_until != 0 && watch.handle == nullptr &&
           watch.keeps_worker_until > steady_now();
}

} // namespace

void
report_state(RelayEntry &entry, RelayState state)
{
    SpinLockAcquire(&entry.mutex);
    entry.report.state = state;
    SpinLockRelease(&entry.mutex);
}

RelayState
reported_state(RelayEntry &entry)
{
    SpinLockAcquire(&entry.mutex);
    const RelayState state = entry.report.state;
    SpinLockRelease(&entry.mutex);
    return state;
}

bool
is_running(const RelayWatch &watch)
{
    return watch.handle != nullptr || pg_atomic_read_u32(&watch.entry->pid) != 0;
}

long
ms_to_start(const RelayWatch &watch)
{
    const std::int64_t soon = in_ms(kFirstPauseMs);
    std::int64_t start_after = watch.start_after;
    if (!keeps_worker(watch))
        for_each_watch(
            [&](const RelayWatch &other)
            {
                if (keeps_worker(other) && (watch.lacks_worker || other.start_after <= soon))
                    start_after = Max(start_after, other.start_after + 1000);
            });
    return Max(0L, static_cast<long>((start_after - steady_now() + 999) / 1000));
}

void
check_worker(RelayWatch &watch)
{
    if (watch.handle == nullptr)
        return;
    pid_t pid;
    const BgwHandleStatus status = GetBackgroundWorkerPid(watch.handle, &pid);
    if (status != BGWH_STOPPED)
        return;
    pfree(watch.handle);
    watch.handle = nullptr;
    record_exit(watch);
    if (watch.wanted &&
        watch.start_after <= in_ms(is_of_default(watch) ? kKeepsWorkerMs : kFirstPauseMs))
    {
        watch.keeps_worker_until = Max(watch.start_after, steady_now()) + kKeepsWorkerMs * 1000;
        return;
    }
    // Its worker is for a relay that waits for one.
    for_each_watch(
        [](RelayWatch &other)
        {
            if (other.lacks_worker)
                other.start_after = 0;
        });
}

void
start_relay(RelayWatch &watch, int number, const char *database_name)
{
    BackgroundWorker worker = {};
    worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
    worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
    worker.bgw_restart_time = BGW_NEVER_RESTART; // the launcher decides
    snprintf(worker.bgw_library_name, sizeof(worker.bgw_library_name), "outbox_relay");
    snprintf(worker.bgw_function_name, sizeof(worker.bgw_function_name), "outbox_relay_main");
    if (number < kMaxDatabases)
        snprintf(worker.bgw_name, BGW_MAXLEN, "outbox relay for database %u", watch.database);
    else // with the name last: it may be cut
        snprintf(worker.bgw_name, BGW_MAXLEN, "outbox relay for database %u, subscription %s",
                 watch.database, shared_state()->subscriptions[number - kMaxDatabases].name);
    snprintf(worker.bgw_type, BGW_MAXLEN, "outbox relay");
    worker.bgw_main_arg = Int32GetDatum(number);
    worker.bgw_notify_pid = MyProcPid;

    pg_atomic_write_u32(&watch.entry->exit, static_cast<uint32>(RelayExit::unexpected));
    watch.started_at = steady_now();
    // Before it runs, and may say more; see awaits_events().
    report_state(*watch.entry, RelayState::starting);
    if (RegisterDynamicBackgroundWorker(&worker, &watch.handle))
    {
        watch.lacks_worker = false;
        watch.keeps_worker_until = 0;
        return;
    }
    watch.handle = nullptr;
    watch.start_after = in_ms(kFirstPauseMs * 5);
    report_no_worker(watch, database_name);
}

} // namespace outbox
