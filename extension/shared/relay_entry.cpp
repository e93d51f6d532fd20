#include "relay_entry.h"

#include "extension/core/steady.h"

namespace outbox
{

namespace
{

// What an entry that is taken does not keep of the database that had it before.
constexpr pg_atomic_uint32 RelayEntry::*kOwn32[] = {&RelayEntry::proc,
                                                    &RelayEntry::pid,
                                                    &RelayEntry::exit,
                                                    &RelayEntry::asked_for,
                                                    &RelayEntry::deliveries_changed,
                                                    &RelayEntry::backlog_counted};

} // namespace

const char *
relay_state_name(RelayState relay_state)
{
    switch (relay_state)
    {
    case RelayState::absent:
        return "absent";
    case RelayState::starting:
        return "starting";
    case RelayState::no_extension:
        return "no_extension";
    case RelayState::not_configured:
        return "not_configured";
    case RelayState::config_error:
        return "config_error";
    case RelayState::detached:
        return "detached";
    case RelayState::running:
        return "running";
    case RelayState::paused:
        return "paused";
    case RelayState::gone:
        return "gone";
    case RelayState::backing_off:
        return "backing_off";
    case RelayState::waiting_standby:
        return "waiting_standby";
    case RelayState::waiting_lock:
        return "waiting_lock";
    case RelayState::stopped:
        return "stopped";
    case RelayState::update_required:
        return "update_required";
    }
    return "unknown";
}

void
initialize(RelayEntry *entry)
{
    for (const auto member : kOwn32)
        pg_atomic_init_u32(&(entry->*member), 0);
    pg_atomic_init_u64(&entry->backlog_base, 0);
    ConditionVariableInit(&entry->position_written);
    pg_atomic_init_u64(&entry->positions, 0);
    pg_atomic_init_u64(&entry->waited_at, 0);
    SpinLockInit(&entry->mutex);
}

void
clear(RelayEntry *entry)
{
    for (const auto member : kOwn32)
        pg_atomic_write_u32(&(entry->*member), 0);
    pg_atomic_write_u64(&entry->backlog_base, 0);
    pg_atomic_write_u64(&entry->waited_at, 0);
    SpinLockAcquire(&entry->mutex);
    memset(&entry->report, 0, sizeof(entry->report));
    SpinLockRelease(&entry->mutex);
}

RelayReport
report_of(RelayEntry *entry)
{
    SpinLockAcquire(&entry->mutex);
    RelayReport report = entry->report;
    SpinLockRelease(&entry->mutex);
    const bool outlives_relay = report.state == RelayState::stopped ||
                                report.state == RelayState::update_required ||
                                report.state == RelayState::starting;
    if (pg_atomic_read_u32(&entry->proc) == 0 && !outlives_relay)
        report.state = RelayState::absent;
    return report;
}

void
end_relay(RelayEntry *entry)
{
    const uint32 pid = pg_atomic_read_u32(&entry->pid);
    if (pid != 0)
        (void) kill(static_cast<pid_t>(pid), SIGTERM); // gone already: just as well
}

void
note_waiting(RelayEntry *entry)
{
    pg_atomic_write_u64(&entry->waited_at, static_cast<uint64>(steady_now()));
}

bool
is_waited_for(RelayEntry *entry)
{
    constexpr int64 kMomentUs = 1500 * 1000;
    const uint64 at = pg_atomic_read_u64(&entry->waited_at);
    return at != 0 && steady_now() - static_cast<int64>(at) < kMomentUs;
}

void
announce_position(RelayEntry *entry)
{
    pg_atomic_fetch_add_u64(&entry->positions, 1);
    ConditionVariableBroadcast(&entry->position_written);
}

bool
awaits_events(RelayEntry *entry)
{
    // The events are visible before the state is read, and a new relay's state is written before it
    // looks for events: one of the two sees the other's.
    pg_memory_barrier();
    return *const_cast<const volatile RelayState *>(&entry->report.state) !=
           RelayState::not_configured;
}

void
wake_process(uint32 proc_plus_one)
{
    if (proc_plus_one != 0 && proc_plus_one <= ProcGlobal->allProcCount)
        SetLatch(&ProcGlobal->allProcs[proc_plus_one - 1].procLatch);
}

void
wake_relay(RelayEntry *entry)
{
    wake_process(pg_atomic_read_u32(&entry->proc));
}

void
tell_of_deliveries(RelayEntry *entry, uint32 how)
{
    pg_atomic_fetch_or_u32(&entry->deliveries_changed, how);
    wake_relay(entry);
}

} // namespace outbox
