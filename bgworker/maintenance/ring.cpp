// The ring of partitions: which one new events go to, and when the others are emptied.

#include "partition_state.h"

#include "ring.h"

#include "detaching.h"
#include "maintenance.h"

#include "bgworker/source/events/partition_contents.h"
#include "bgworker/source/short_transaction.h"
#include "bgworker/source/spi_call.h"

#include "extension/server/pg_locks.h"
#include "extension/shared/settings.h"

namespace outbox
{

namespace
{

// One partition is being filled and one is empty, to be the next; the others hold what is kept.
constexpr int kShares = kRingSlots - 2;

constexpr int64 kSecondUs = 1000000;
constexpr int kShortestPauseMs = 50;
constexpr int kLongestPauseMs = 10 * 1000;
constexpr int kRetryMs = 1000; // while a lock is in the way
constexpr int kMovedAtOnce = 200;
constexpr int kTicksAtOnce = 5000;

struct Ring
{
    int current; // the partition that new events go to
    RingFacts facts;
    Judgement partitions[kRingSlots];
    char written[kRingSlots][kReasonSize]; // the reasons that outbox.ring has
    bool current_is_empty;
    bool more_ticks;
    bool full_logged;
};

Ring ring;

Oid
table_of(int slot)
{
    char name[NAMEDATALEN];
    snprintf(name, sizeof(name), "events_%d", slot);
    return find_own_relation(name);
}

// Reads what decides about the partitions, and removes ticks that nothing needs. False when a lock
// is in the way.
bool
inspect_ring(TimestampTz now)
{
    EventTables tables = {};
    begin_transaction();
    bool opened = lock_ring_tables();
    const bool later = opened && has_later_times();
    if (later && lock_wholly("relay_position", RowExclusiveLock))
    {
        ereport(LOG, (errmsg("outbox: times that are in the future count as now"),
                      errdetail("The server's clock was ahead when they were written.")));
        make_later_times_now();
    }
    // What was written is seen by the next call.
    opened = opened && !later && open_events(&tables) == OpenResult::opened;
    int64 lowest = 0;
    if (opened)
    {
        read_facts(&ring.facts, now - settings.retention_s * kSecondUs);
        begin_lagging();
        for (int slot = 0; slot < kRingSlots; slot++)
            judge(&tables, ring.facts, slot, &ring.partitions[slot]);
        ring.current_is_empty = tables.slots[ring.facts.current].index == nullptr;
        lowest = lowest_xid(&tables);
    }
    close_events(&tables);
    if (opened && ring.facts.has_published)
        ring.more_ticks = remove_ticks(Min(lowest, static_cast<int64>(ring.facts.published.xmin())),
                                       kTicksAtOnce);
    end_transaction();
    return opened;
}

// The table with all that belongs to it, as TRUNCATE locks it, or nothing.
bool
lock_exclusively(Oid table)
{
    if (!ConditionalLockRelationOid(table, AccessExclusiveLock))
        return false;
    Relation relation = table_open(table, NoLock);
    const Oid toast = relation->rd_rel->reltoastrelid;
    bool locked = !OidIsValid(toast) || ConditionalLockRelationOid(toast, AccessExclusiveLock);
    ListCell *cell;
    foreach (cell, RelationGetIndexList(relation))
        locked = locked && ConditionalLockRelationOid(lfirst_oid(cell), AccessExclusiveLock);
    table_close(relation, NoLock);
    if (locked && OidIsValid(toast))
    {
        relation = table_open(toast, NoLock);
        foreach (cell, RelationGetIndexList(relation))
            locked = locked && ConditionalLockRelationOid(lfirst_oid(cell), AccessExclusiveLock);
        table_close(relation, NoLock);
    }
    return locked;
}

void
truncate(int slot)
{
    char statement[64];
    snprintf(statement, sizeof(statement), "truncate only outbox.events_%d", slot);
    spi_connect();
    spi_execute(statement, 0, nullptr, nullptr, SPI_OK_UTILITY);
    SPI_finish();
    write_truncated(slot);
    expect_truncation(slot);
}

void
hold_for_lock(Judgement *judgement, Oid table, LOCKMODE mode, const char *on)
{
    const int pid = process_in_the_way(table, mode);
    if (pid != 0)
        hold(judgement, "a lock of process %d%s", pid, on);
    else
        hold(judgement, "a lock, as of a prepared transaction%s", on);
}

// Decides anew with the partition locked against readers and writers, and empties it. A
// subscription that is being created may begin with what is there, and is not seen yet.
void
truncate_if_due(int slot)
{
    Judgement *judgement = &ring.partitions[slot];
    begin_transaction();
    if (lock_ring_tables())
    {
        const Oid table = table_of(slot);
        const Oid subscriptions = find_own_relation("subscriptions");
        if (!ConditionalLockRelationOid(subscriptions, RowExclusiveLock))
            hold_for_lock(judgement, subscriptions, RowExclusiveLock, " on outbox.subscriptions");
        else if (OidIsValid(table) && lock_exclusively(table))
        {
            // What was committed up to the lock must be seen.
            PopActiveSnapshot();
            PushActiveSnapshot(GetLatestSnapshot());
            EventTables tables = {};
            read_facts(&ring.facts, ring.facts.cutoff);
            if (open_events(&tables) == OpenResult::opened)
                judge(&tables, ring.facts, slot, judgement);
            else
                hold(judgement, "a lock on another table");
            close_events(&tables);
            if (judgement->state == PartitionState::due && judgement->is_missed &&
                !write_missing(slot))
                hold(judgement, "the count of what a detached subscription misses");
            if (judgement->state == PartitionState::due)
            {
                truncate(slot);
                judgement->state = PartitionState::empty;
            }
        }
        else if (OidIsValid(table))
            hold_for_lock(judgement, table, AccessExclusiveLock, "");
    }
    end_transaction();
    if (judgement->state == PartitionState::empty)
    {
        forget_summaries(slot);
        ring.written[slot][0] = '\0';
    }
}

// Returns false when all that are left to move are locked.
bool
move_failed_events(int slot)
{
    uint64 moved = 0;
    EventTables tables = {};
    begin_transaction();
    const Oid from = lock_ring_tables() ? table_of(slot) : InvalidOid;
    const Oid to = table_of(ring.facts.current);
    if (lock_table(from, RowExclusiveLock) == OpenResult::opened &&
        lock_table(to, RowExclusiveLock) == OpenResult::opened)
    {
        if (open_events(&tables) == OpenResult::opened)
            moved = move_settled(&tables, slot, ring.facts.current, kMovedAtOnce);
        close_events(&tables);
    }
    end_transaction();
    return moved > 0;
}

int
next_empty()
{
    for (int i = 1; i < kRingSlots; i++)
    {
        const int slot = (ring.facts.current + i) % kRingSlots;
        if (ring.partitions[slot].state == PartitionState::empty)
            return slot;
    }
    return -1;
}

bool
has_had_its_time(TimestampTz now)
{
    return now - ring.facts.rows[ring.facts.current].began_at >=
           settings.retention_s * kSecondUs / kShares;
}

// Backends learn of it when it is committed. One that writes to the previous partition a little
// longer does no harm.
void
switch_to(DatabaseSlot *shared, int slot)
{
    begin_transaction();
    const bool locked = lock_ring_tables();
    if (locked)
        write_current(ring.facts.current, slot);
    end_transaction();
    if (!locked)
        return;
    ring.written[ring.facts.current][0] = '\0';
    ring.written[slot][0] = '\0';
    ring.facts.current = slot;
    ring.full_logged = false;
    ring.current = slot;
    pg_atomic_write_u32(&shared->ring_slot, static_cast<uint32>(slot) + 1);
}

void
rotate(DatabaseSlot *shared, TimestampTz now)
{
    if (ring.current_is_empty || !has_had_its_time(now))
        return;
    const int slot = next_empty();
    if (slot >= 0)
    {
        switch_to(shared, slot);
        return;
    }
    strlcpy(ring.partitions[ring.facts.current].reason, "no partition is empty", kReasonSize);
    if (!ring.full_logged)
        ereport(WARNING,
                (errmsg("outbox: all partitions of outbox.events are in use, and the current one "
                        "grows beyond its share of outbox.retention"),
                 errhint("The view outbox.maintenance_status says what holds the others back.")));
    ring.full_logged = true;
}

// Writes the reasons that have changed to outbox.ring, for outbox.maintenance_status.
void
write_reasons()
{
    bool changed = false;
    for (int slot = 0; slot < kRingSlots; slot++)
        changed = changed || strcmp(ring.written[slot], ring.partitions[slot].reason) != 0;
    if (!changed)
        return;
    begin_transaction();
    if (lock_ring_tables())
        for (int slot = 0; slot < kRingSlots; slot++)
        {
            const char *reason = ring.partitions[slot].reason;
            if (strcmp(ring.written[slot], reason) == 0)
                continue;
            write_held_back(slot, reason[0] == '\0' ? nullptr : reason);
            strlcpy(ring.written[slot], reason, kReasonSize);
        }
    end_transaction();
}

int
usual_pause()
{
    const int64 sixtieth = static_cast<int64>(settings.retention_s) * 1000 / 60;
    return static_cast<int>(Min(Max(sixtieth, static_cast<int64>(kShortestPauseMs)),
                                static_cast<int64>(kLongestPauseMs)));
}

} // namespace

void
load_ring(DatabaseSlot *slot)
{
    RingRow rows[kRingSlots];
    ring.current = read_ring(rows);
    // A reason of an earlier relay stays until it is replaced.
    for (int i = 0; i < kRingSlots; i++)
        strlcpy(ring.written[i], rows[i].held_back ? "?" : "", kReasonSize);
    pg_atomic_write_u32(&slot->ring_slot, static_cast<uint32>(ring.current) + 1);
}

int
current_partition()
{
    return ring.current;
}

int
maintain_ring(DatabaseSlot *shared, TimestampTz now)
{
    if (settings.retention_s == 0)
    {
        memset(ring.partitions, 0, sizeof(ring.partitions));
        write_reasons(); // nothing is held back that is kept for ever
        return kLongestPauseMs;
    }
    if (!inspect_ring(now))
        return kRetryMs;
    end_lagging();
    int pause = ring.more_ticks ? kShortestPauseMs : usual_pause();
    for (int slot = 0; slot < kRingSlots; slot++)
    {
        const PartitionState state = ring.partitions[slot].state;
        if (state != PartitionState::failed_first && state != PartitionState::due)
            continue;
        bool waits = false;
        if (state == PartitionState::failed_first)
            waits = !move_failed_events(slot);
        else if (ring.partitions[slot].is_missed && !count_missing(slot))
        {
            pause = kShortestPauseMs;
            break;
        }
        else
            truncate_if_due(slot);
        if (waits || ring.partitions[slot].state == PartitionState::held)
        {
            pause = Min(pause, kRetryMs);
            continue;
        }
        pause = kShortestPauseMs;
        break; // the others in the next round: publishing waits
    }
    rotate(shared, now);
    write_reasons();
    return pause;
}

} // namespace outbox
