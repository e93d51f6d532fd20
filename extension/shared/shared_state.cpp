#include "shared_state.h"

#include "settings.h"
#include "stats_memory.h"

#include "extension/emit/prepared.h"
#include "extension/server/pg_hooks.h"

namespace outbox
{

namespace
{

SharedState *state = nullptr;
shmem_startup_hook_type previous_startup_hook = nullptr;

constexpr const char *kShmemName = "outbox";

void
request_shared_memory()
{
    RequestAddinShmemSpace(sizeof(SharedState));
    RequestNamedLWLockTranche(kShmemName, 1);
    request_stats_memory();
    request_prepared_memory();
}

// What an entry that is taken does not keep of the database that had it before.
constexpr pg_atomic_uint32 DatabaseSlot::*kOwn32[] = {
    &DatabaseSlot::relay_proc,   &DatabaseSlot::relay_pid,          &DatabaseSlot::relay_exit,
    &DatabaseSlot::relay_wanted, &DatabaseSlot::deliveries_changed, &DatabaseSlot::held_by,
    &DatabaseSlot::ring_slot,    &DatabaseSlot::backlog_counted,    &DatabaseSlot::numbered_by};
constexpr pg_atomic_uint64 DatabaseSlot::*kOwn64[] = {
    &DatabaseSlot::emitted, &DatabaseSlot::backlog_base, &DatabaseSlot::largest_seq};

void
initialize(SharedState *fresh)
{
    memset(fresh, 0, sizeof(*fresh));
    fresh->layout = kSharedLayout;
    strlcpy(fresh->version, OUTBOX_VERSION, sizeof(fresh->version));
    fresh->lock = &GetNamedLWLockTranche(kShmemName)->lock;
    pg_atomic_init_u32(&fresh->launcher_proc, 0);
    pg_atomic_init_u32(&fresh->check_all_databases, 0);
    for (DatabaseSlot &slot : fresh->slots)
    {
        pg_atomic_init_u32(&slot.database, InvalidOid);
        for (const auto member : kOwn32)
            pg_atomic_init_u32(&(slot.*member), 0);
        for (const auto member : kOwn64)
            pg_atomic_init_u64(&(slot.*member), 0);
        ConditionVariableInit(&slot.position_written);
        pg_atomic_init_u64(&slot.positions, 0);
        SpinLockInit(&slot.mutex);
    }
}

void
startup_shared_memory()
{
    if (previous_startup_hook)
        previous_startup_hook();

    bool found = false;
    LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
    state = static_cast<SharedState *>(ShmemInitStruct(kShmemName, sizeof(SharedState), &found));
    if (!found)
        initialize(state);
    start_stats_memory();
    start_prepared_memory();
    LWLockRelease(AddinShmemInitLock);
}

void
wake_process(uint32 proc_plus_one)
{
    if (proc_plus_one != 0 && proc_plus_one <= ProcGlobal->allProcCount)
        SetLatch(&ProcGlobal->allProcs[proc_plus_one - 1].procLatch);
}

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
    case RelayState::running:
        return "running";
    case RelayState::paused:
        return "paused";
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

SharedState *
shared_state()
{
    return state;
}

void
reserve_shared_state()
{
    request_shmem_by(request_shared_memory);
    previous_startup_hook = shmem_startup_hook;
    shmem_startup_hook = startup_shared_memory;
}

int
most_databases()
{
    return Min(settings.max_databases, kMaxDatabases);
}

namespace
{

DatabaseSlot *
free_slot_or_null()
{
    for (int i = 0; i < most_databases(); i++)
        if (pg_atomic_read_u32(&state->slots[i].database) == InvalidOid)
            return &state->slots[i];
    return nullptr;
}

} // namespace

bool
all_slots_taken()
{
    return state != nullptr && free_slot_or_null() == nullptr;
}

DatabaseSlot *
find_slot(Oid database)
{
    if (state == nullptr)
        return nullptr;
    for (DatabaseSlot &slot : state->slots)
        if (pg_atomic_read_u32(&slot.database) == database)
            return &slot;
    return nullptr;
}

DatabaseSlot *
own_slot()
{
    static DatabaseSlot *slot = nullptr;
    if (slot == nullptr || pg_atomic_read_u32(&slot->database) != MyDatabaseId)
        slot = find_slot(MyDatabaseId);
    return slot;
}

RelayReport
report_of(DatabaseSlot *slot)
{
    SpinLockAcquire(&slot->mutex);
    RelayReport report = slot->report;
    SpinLockRelease(&slot->mutex);
    const bool outlives_relay = report.state == RelayState::stopped ||
                                report.state == RelayState::update_required ||
                                report.state == RelayState::starting;
    if (pg_atomic_read_u32(&slot->relay_proc) == 0 && !outlives_relay)
        report.state = RelayState::absent;
    return report;
}

DatabaseSlot *
claim_slot(Oid database)
{
    DatabaseSlot *slot = find_slot(database);
    if (slot != nullptr || state == nullptr)
        return slot;

    LWLockAcquire(state->lock, LW_EXCLUSIVE);
    slot = find_slot(database);
    if (slot == nullptr)
    {
        slot = free_slot_or_null();
        if (slot != nullptr)
        {
            for (const auto member : kOwn32)
                pg_atomic_write_u32(&(slot->*member), 0);
            for (const auto member : kOwn64)
                pg_atomic_write_u64(&(slot->*member), 0);
            SpinLockAcquire(&slot->mutex);
            memset(&slot->report, 0, sizeof(slot->report));
            SpinLockRelease(&slot->mutex);
            pg_atomic_write_u32(&slot->database, database);
        }
    }
    LWLockRelease(state->lock);
    return slot;
}

void
end_relay(DatabaseSlot *slot)
{
    const uint32 pid = pg_atomic_read_u32(&slot->relay_pid);
    if (pid != 0)
        (void) kill(static_cast<pid_t>(pid), SIGTERM); // gone already: just as well
}

// Under the lock it is not claimed again, so what is asked now was meant for its database.
bool
free_slot(DatabaseSlot *slot)
{
    LWLockAcquire(state->lock, LW_EXCLUSIVE);
    free_stats_area(pg_atomic_read_u32(&slot->database));
    pg_atomic_write_u32(&slot->database, InvalidOid);
    pg_memory_barrier();
    const bool asked = pg_atomic_read_u32(&slot->relay_wanted) != 0;
    LWLockRelease(state->lock);
    return asked;
}

// The launcher may have looked too early, and give the entry back at this very moment: either it
// sees what is asked, or here it is seen that the entry was given back.
void
ask_for_relay(DatabaseSlot *slot)
{
    if (slot != nullptr)
    {
        pg_atomic_write_u32(&slot->relay_wanted, 1);
        pg_memory_barrier();
    }
    if (slot == nullptr || pg_atomic_read_u32(&slot->database) != MyDatabaseId)
        pg_atomic_write_u32(&state->check_all_databases, 1);
    wake_launcher();
}

// The base first: it only follows what was emitted.
int64
backlog_of(DatabaseSlot *slot)
{
    const uint64 base = pg_atomic_read_u64(&slot->backlog_base);
    pg_read_barrier();
    const int64 waiting = static_cast<int64>(pg_atomic_read_u64(&slot->emitted) - base);
    return Max(waiting, static_cast<int64>(0));
}

void
announce_position(DatabaseSlot *slot)
{
    pg_atomic_fetch_add_u64(&slot->positions, 1);
    ConditionVariableBroadcast(&slot->position_written);
}

bool
awaits_events(DatabaseSlot *slot)
{
    // The events are visible before the state is read, and a new relay's state is written before it
    // looks for events: one of the two sees the other's.
    pg_memory_barrier();
    return *const_cast<const volatile RelayState *>(&slot->report.state) !=
           RelayState::not_configured;
}

void
wake_relay(DatabaseSlot *slot)
{
    wake_process(pg_atomic_read_u32(&slot->relay_proc));
}

void
wake_launcher()
{
    if (state != nullptr)
        wake_process(pg_atomic_read_u32(&state->launcher_proc));
}

} // namespace outbox
