#include "stats_memory.h"

#include "subscription_slots.h"

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
    return Max(1, Min(kMostStatsAreas, max_worker_processes));
}

Size
memory_size()
{
    return offsetof(StatsMemory, areas) + sizeof(StatsArea) * static_cast<Size>(area_count());
}

bool
has_relay(const StatsArea &area)
{
    DatabaseSlot *slot = find_slot(area.database);
    if (slot == nullptr)
        return false;
    if (strcmp(area.subscription, kDefaultSubscription) == 0)
        return pg_atomic_read_u32(&slot->relay.proc) != 0;
    SubscriptionSlot *other = find_subscription(*slot, area.subscription);
    return other != nullptr && pg_atomic_read_u32(&other->relay.proc) != 0;
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
        if (!has_relay(*area))
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

bool
is_stats_area_of(const StatsArea &area, Oid database, const char *subscription)
{
    return area.database == database &&
           strncmp(area.subscription, subscription, sizeof(area.subscription)) == 0;
}

StatsArea *
find_stats_area(Oid database, const char *subscription)
{
    StatsArea *found = nullptr;
    for_each_stats_area(database,
                        [&](StatsArea &area)
                        {
                            if (is_stats_area_of(area, database, subscription))
                                found = &area;
                        });
    return found;
}

void
clear_stats_area(StatsArea *area)
{
    memset(area->rows, 0, sizeof(area->rows));
    area->resets++;
    area->reset_at = GetCurrentTimestamp();
}

StatsArea *
claim_stats_area(Oid database, const char *subscription, TimestampTz created_at)
{
    LWLockAcquire(shared_state()->lock, LW_EXCLUSIVE);
    StatsArea *area = find_stats_area(database, subscription);
    const bool is_ours = area != nullptr && area->created_at == created_at;
    if (area == nullptr)
        area = area_to_take();
    if (area != nullptr && !is_ours)
    {
        LWLockAcquire(stats_lock(area), LW_EXCLUSIVE);
        area->database = database;
        strlcpy(area->subscription, subscription, sizeof(area->subscription));
        area->created_at = created_at;
        clear_stats_area(area);
        LWLockRelease(stats_lock(area));
    }
    LWLockRelease(shared_state()->lock);
    return area;
}

void
free_stats_areas(Oid database, const char *subscription)
{
    for_each_stats_area(
        database,
        [&](StatsArea &area)
        {
            LWLockAcquire(stats_lock(&area), LW_EXCLUSIVE);
            if (area.database == database &&
                (subscription == nullptr || is_stats_area_of(area, database, subscription)))
                area.database = InvalidOid;
            LWLockRelease(stats_lock(&area));
        });
}

} // namespace outbox
