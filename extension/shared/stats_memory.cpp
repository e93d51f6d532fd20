#include "stats_memory.h"

#include "shared_state.h"

extern "C"
{
#include "postmaster/bgworker_internals.h"
}

namespace outbox
{

namespace
{

constexpr const char *kTranche = "outbox_stats";

StatsMemory *memory = nullptr;
LWLockPadded *locks = nullptr;

// As many as there can be relays at a time: each is a background worker.
int
area_count()
{
    return Max(1, Min(kMaxDatabases, max_worker_processes));
}

Size
memory_size()
{
    return offsetof(StatsMemory, areas) + sizeof(StatsArea) * static_cast<Size>(area_count());
}

bool
has_relay(Oid database)
{
    DatabaseSlot *slot = find_slot(database);
    return slot != nullptr && pg_atomic_read_u32(&slot->relay.proc) != 0;
}

// With the entries' lock held.
StatsArea *
area_to_take()
{
    StatsArea *idle = nullptr;
    for (int i = 0; i < memory->area_count; i++)
    {
        StatsArea *area = &memory->areas[i];
        if (area->database == InvalidOid)
            return area;
        if (!has_relay(area->database))
            idle = area;
    }
    return idle;
}

} // namespace

void
TopicCounts::merge(const TopicCounts &other) noexcept
{
    published += other.published;
    bytes += other.bytes;
    refused += other.refused;
    failed += other.failed;
    retried += other.retried;
    batches += other.batches;
    last_published_at = Max(last_published_at, other.last_published_at);
    batch_events.merge(other.batch_events);
    created_to_acked.merge(other.created_to_acked);
    sent_to_acked.merge(other.sent_to_acked);
}

StatsMemory *
stats_memory()
{
    return memory;
}

void
request_stats_memory()
{
    RequestAddinShmemSpace(memory_size());
    RequestNamedLWLockTranche(kTranche, area_count());
}

// The caller holds AddinShmemInitLock. What is free is cleared when it is taken.
void
start_stats_memory()
{
    bool found = false;
    memory = static_cast<StatsMemory *>(ShmemInitStruct(kTranche, memory_size(), &found));
    locks = GetNamedLWLockTranche(kTranche);
    if (found)
        return;
    memory->layout = kStatsLayout;
    memory->area_count = area_count();
    for (int i = 0; i < memory->area_count; i++)
        memory->areas[i].database = InvalidOid;
}

LWLock *
stats_lock(const StatsArea *area)
{
    return &locks[area - memory->areas].lock;
}

StatsArea *
find_stats_area(Oid database)
{
    if (memory == nullptr)
        return nullptr;
    for (int i = 0; i < memory->area_count; i++)
        if (memory->areas[i].database == database)
            return &memory->areas[i];
    return nullptr;
}

void
clear_stats_area(StatsArea *area, Oid database)
{
    memset(area->rows, 0, sizeof(area->rows));
    area->database = database;
    area->resets++;
    area->reset_at = GetCurrentTimestamp();
}

StatsArea *
claim_stats_area(Oid database)
{
    LWLockAcquire(shared_state()->lock, LW_EXCLUSIVE);
    StatsArea *area = find_stats_area(database);
    if (area == nullptr)
    {
        area = area_to_take();
        if (area != nullptr)
        {
            LWLockAcquire(stats_lock(area), LW_EXCLUSIVE);
            clear_stats_area(area, database);
            LWLockRelease(stats_lock(area));
        }
    }
    LWLockRelease(shared_state()->lock);
    return area;
}

void
free_stats_area(Oid database)
{
    StatsArea *area = find_stats_area(database);
    if (area == nullptr)
        return;
    LWLockAcquire(stats_lock(area), LW_EXCLUSIVE);
    if (area->database == database)
        area->database = InvalidOid;
    LWLockRelease(stats_lock(area));
}

} // namespace outbox
