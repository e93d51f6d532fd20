#include "shared_state.h"

#include "settings.h"
#include "stats_memory.h"
#include "subscription_slots.h"

#include "extension/emit/prepared.h"
#include "extension/server/pg_hooks.h"

extern "C"
{
#include "storage/ipc.h"
#include "utils/timestamp.h"
}

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
    &DatabaseSlot::relay_wanted, &DatabaseSlot::held_by,  &DatabaseSlot::ring_slot,
    &DatabaseSlot::numbered_by,  &DatabaseSlot::restores, &DatabaseSlot::restores_seen};
constexpr pg_atomic_uint64 DatabaseSlot::*kOwn64[] = {&DatabaseSlot::emitted,
                                                      &DatabaseSlot::largest_seq};

// A crash takes the shared memory, and makes no start of the server: what the postmaster keeps of
// the one before.
struct Kept
{
    bool any;
    uint64 settled_settings;
    uint64 refused_as_of;
};
Kept kept;

void
keep(int, Datum)
{
    kept = {true, pg_atomic_read_u64(&state->settled_settings),
            pg_atomic_read_u64(&state->refused_as_of)};
}

void
initialize(SharedState *fresh)
{
    memset(fresh, 0, sizeof(*fresh));
    fresh->layout = kSharedLayout;
    strlcpy(fresh->version, OUTBOX_VERSION, sizeof(fresh->version));
    fresh->lock = &GetNamedLWLockTranche(kShmemName)->lock;
    pg_atomic_init_u32(&fresh->launcher_proc, 0);
    pg_atomic_init_u32(&fresh->check_all_databases, 0);
    pg_atomic_init_u64(&fresh->settled_settings, kept.settled_settings);
    pg_atomic_init_u64(&fresh->refused_as_of,
                       kept.any ? kept.refused_as_of : static_cast<uint64>(PgReloadTime));
    for (DatabaseSlot &slot : fresh->slots)
    {
        pg_atomic_init_u32(&slot.database, InvalidOid);
        for (const auto member : kOwn32)
            pg_atomic_init_u32(&(slot.*member), 0);
        for (const auto member : kOwn64)
            pg_atomic_init_u64(&(slot.*member), 0);
        for (pg_atomic_uint32 &subscription : slot.subscriptions)
            pg_atomic_init_u32(&subscription, 0);
        initialize(&slot.relay);
    }
    for (SubscriptionSlot &subscription : fresh->subscriptions)
    {
        pg_atomic_init_u32(&subscription.database, InvalidOid);
        pg_atomic_init_u32(&subscription.wanted, 0);
        initialize(&subscription.relay);
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
    if (!IsUnderPostmaster)
        on_shmem_exit(keep, 0);
    start_stats_memory();
    start_prepared_memory();
    LWLockRelease(AddinShmemInitLock);
}

} // namespace

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
            for (pg_atomic_uint32 &subscription : slot->subscriptions)
                pg_atomic_write_u32(&subscription, 0);
            clear(&slot->relay);
            pg_atomic_write_u32(&slot->database, database);
        }
    }
    LWLockRelease(state->lock);
    return slot;
}

// Under the lock it is not claimed again, so what is asked now was meant for its database.
bool
free_slot(DatabaseSlot *slot)
{
    LWLockAcquire(state->lock, LW_EXCLUSIVE);
    free_stats_areas(pg_atomic_read_u32(&slot->database), nullptr);
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
        for_each_subscription(*slot, [](SubscriptionSlot &subscription)
                              { pg_atomic_write_u32(&subscription.relay.asked_for, 1); });
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
    const uint64 base = pg_atomic_read_u64(&slot->relay.backlog_base);
    pg_read_barrier();
    const int64 waiting = static_cast<int64>(pg_atomic_read_u64(&slot->emitted) - base);
    return Max(waiting, static_cast<int64>(0));
}

void
wake_launcher()
{
    if (state != nullptr)
        wake_process(pg_atomic_read_u32(&state->launcher_proc));
}

} // namespace outbox
