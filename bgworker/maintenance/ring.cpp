#include "ring_store.h"

#include "bgworker/replay/replay_store.h"

#include "ring.h"

#include "maintenance.h"

#include "bgworker/short_transaction.h"
#include "bgworker/spi_call.h"

#include "extension/settings.h"

namespace outbox
{

namespace
{

// One slot is being filled and one is empty, to go on to; the others hold what is kept.
constexpr int kShares = kRingSlots - 2;

constexpr int64 kSecondUs = 1000000;
constexpr int kShortestPauseMs = 50;
constexpr int kLongestPauseMs = 10 * 1000;
constexpr int kRetryMs = 1000; // while a lock is in the way
constexpr int kMovedAtOnce = 200;
constexpr int kTicksAtOnce = 5000;
constexpr int kReasonSize = 160;

enum class Verdict
{
    current,
    empty,
    young,        // not old enough to go
    held,         // it would be time, but; see the reason
    failed_first, // failed events must get another place
    due
};

struct Judgement
{
    Verdict verdict;
    char reason[kReasonSize];
};

// What a look at the ring found. Kept between calls only to know what outbox.ring says already.
struct Look
{
    int current;
    TimestampTz cutoff;
    RingRow rows[kRingSlots];
    Judgement slots[kRingSlots];
    bool current_is_empty;
    bool has_published; // the snapshots below are known
    bool has_old;
    bool more_ticks;
};

int current = 0;
char written[kRingSlots][kReasonSize]; // reasons in outbox.ring
bool full_told = false;

// No object with a destructor on frames that an error may leave.
XidSnapshot published;
XidSnapshot old;

// All locks before anything is changed: DROP EXTENSION takes the same ones in its own order.
bool
lock_tables()
{
    return OidIsValid(get_extension_oid("outbox", true)) &&
           lock_if_free("relay_position", AccessShareLock) &&
           lock_if_free("deliveries", RowExclusiveLock) &&
           lock_if_free("ticks", RowExclusiveLock) && lock_if_free("ring", RowExclusiveLock) &&
           lock_replay_tables() != OpenResult::locked;
}

Oid
table_of(int slot)
{
    char name[NAMEDATALEN];
    snprintf(name, sizeof(name), "events_%d", slot);
    return find_own_relation(name);
}

void hold(Judgement *judgement, const char *format, ...) pg_attribute_printf(2, 3);

void
hold(Judgement *judgement, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void) vsnprintf(judgement->reason, sizeof(judgement->reason), format, arguments);
    va_end(arguments);
    judgement->verdict = Verdict::held;
}

void
read_facts(Look *look, TimestampTz cutoff)
{
    look->cutoff = cutoff;
    look->current = read_ring(look->rows);
    look->has_published = read_published(&published);
    look->has_old = read_old(cutoff, &old);
}

// Decides by snapshots: what is old was visible in one that the relay had published by `cutoff`. To
// be trusted as far as the slot's rows are: with an exclusive lock on it nobody can have a row in
// it that is not committed yet, whichever slot he takes for the current one.
void
judge(EventTables *tables, const Look &look, int slot, Judgement *judgement)
{
    *judgement = {};
    const RingRow &row = look.rows[slot];
    if (slot == look.current)
        judgement->verdict = Verdict::current;
    else if (tables->slots[slot].index == nullptr)
        judgement->verdict = Verdict::empty;
    else if (row.ended_at > look.cutoff)
        judgement->verdict = Verdict::young;
    else if (!look.has_published || has_events_beyond(tables, slot, published))
        hold(judgement, "events that are not published");
    else if (!look.has_old || has_events_beyond(tables, slot, old) ||
             (row.restored_at > look.cutoff && has_events_of(tables, slot, 0)))
        hold(judgement, "events published within outbox.retention");
    else
    {
        const SetAside aside = events_set_aside(slot);
        judgement->verdict = aside.settled > 0 ? Verdict::failed_first : Verdict::due;
        const char *replay = replay_that_needs(slot);
        if (aside.unsettled > 0)
            hold(judgement, "%s" INT64_FORMAT " refused or waiting events",
                 aside.unsettled < kMostCounted ? "" : "at least ", aside.unsettled);
        else if (replay != nullptr)
            hold(judgement, "events of replay %s", replay);
    }
}

bool
look_around(TimestampTz now, Look *look)
{
    EventTables tables = {};
    begin_transaction();
    bool opened = lock_tables();
    const bool later = opened && has_later_times();
    if (later && lock_if_free("relay_position", RowExclusiveLock))
    {
        ereport(LOG, (errmsg("outbox: times that are in the future count as now"),
                      errdetail("The server's clock was ahead when they were written.")));
        make_later_times_now();
    }
    // A statement of its own sees what was written.
    opened = opened && !later && open_events(&tables) == OpenResult::opened;
    int64 lowest = 0;
    if (opened)
    {
        read_facts(look, now - settings.retention_s * kSecondUs);
        for (int slot = 0; slot < kRingSlots; slot++)
            judge(&tables, *look, slot, &look->slots[slot]);
        look->current_is_empty = tables.slots[look->current].index == nullptr;
        lowest = lowest_xid(&tables);
    }
    close_events(&tables);
    if (opened && look->has_published)
        look->more_ticks =
            remove_ticks(Min(lowest, static_cast<int64>(published.xmin())), kTicksAtOnce);
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

// Looks again at a slot that nobody else can look at or write to, and empties it.
void
truncate_if_due(Look *look, int slot)
{
    Judgement *judgement = &look->slots[slot];
    begin_transaction();
    if (lock_tables())
    {
        const Oid table = table_of(slot);
        if (OidIsValid(table) && lock_exclusively(table))
        {
            // What was committed up to the lock must be seen.
            PopActiveSnapshot();
            PushActiveSnapshot(GetLatestSnapshot());
            EventTables tables = {};
            read_facts(look, look->cutoff);
            if (open_events(&tables) == OpenResult::opened)
                judge(&tables, *look, slot, judgement);
            else
                hold(judgement, "a lock on another table");
            close_events(&tables);
            if (judgement->verdict == Verdict::due)
            {
                truncate(slot);
                judgement->verdict = Verdict::empty;
            }
        }
        else if (OidIsValid(table))
        {
            const int pid = process_in_the_way(table);
            if (pid != 0)
                hold(judgement, "a lock of process %d", pid);
            else
                hold(judgement, "a lock, as of a prepared transaction");
        }
    }
    end_transaction();
    if (judgement->verdict == Verdict::empty)
    {
        forget_summaries(slot);
        written[slot][0] = '\0';
    }
}

// Returns false when there was none to move that is not locked.
bool
move_failed_events(const Look &look, int slot)
{
    uint64 moved = 0;
    EventTables tables = {};
    begin_transaction();
    const Oid from = lock_tables() ? table_of(slot) : InvalidOid;
    const Oid to = table_of(look.current);
    if (OidIsValid(from) && OidIsValid(to) && ConditionalLockRelationOid(from, RowExclusiveLock) &&
        ConditionalLockRelationOid(to, RowExclusiveLock))
    {
        if (open_events(&tables) == OpenResult::opened)
            moved = move_settled(&tables, slot, look.current, kMovedAtOnce);
        close_events(&tables);
    }
    end_transaction();
    return moved > 0;
}

int
next_empty(const Look &look)
{
    for (int i = 1; i < kRingSlots; i++)
    {
        const int slot = (look.current + i) % kRingSlots;
        if (look.slots[slot].verdict == Verdict::empty)
            return slot;
    }
    return -1;
}

bool
has_had_its_time(const Look &look, TimestampTz now)
{
    return now - look.rows[look.current].began_at >= settings.retention_s * kSecondUs / kShares;
}

// Backends are told when it is committed. Who takes the slot before for the current one a little
// longer does no harm.
void
go_on_to(DatabaseSlot *shared, Look *look, int slot)
{
    begin_transaction();
    const bool locked = lock_tables();
    if (locked)
        write_current(look->current, slot);
    end_transaction();
    if (!locked)
        return;
    written[look->current][0] = '\0';
    written[slot][0] = '\0';
    look->current = slot;
    full_told = false;
    current = slot;
    pg_atomic_write_u32(&shared->ring_slot, static_cast<uint32>(slot) + 1);
}

void
rotate(DatabaseSlot *shared, Look *look, TimestampTz now)
{
    if (look->current_is_empty || !has_had_its_time(*look, now))
        return;
    const int slot = next_empty(*look);
    if (slot >= 0)
    {
        go_on_to(shared, look, slot);
        return;
    }
    strlcpy(look->slots[look->current].reason, "no partition is empty", kReasonSize);
    if (!full_told)
        ereport(WARNING,
                (errmsg("outbox: all partitions of outbox.events are in use, and the current one "
                        "grows beyond its share of outbox.retention"),
                 errhint("The view outbox.maintenance_status says what holds the others back.")));
    full_told = true;
}

// Tells people what is in the way, when that has changed.
void
write_reasons(const Look &look)
{
    bool changed = false;
    for (int slot = 0; slot < kRingSlots; slot++)
        changed = changed || strcmp(written[slot], look.slots[slot].reason) != 0;
    if (!changed)
        return;
    begin_transaction();
    if (lock_tables())
        for (int slot = 0; slot < kRingSlots; slot++)
        {
            const char *reason = look.slots[slot].reason;
            if (strcmp(written[slot], reason) == 0)
                continue;
            write_held_back(slot, reason[0] == '\0' ? nullptr : reason);
            strlcpy(written[slot], reason, kReasonSize);
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
    current = read_ring(rows);
    // A reason of an earlier relay is there until it is written over.
    for (int i = 0; i < kRingSlots; i++)
        strlcpy(written[i], rows[i].held_back ? "?" : "", kReasonSize);
    pg_atomic_write_u32(&slot->ring_slot, static_cast<uint32>(current) + 1);
}

int
ring_slot()
{
    return current;
}

int
turn_ring(DatabaseSlot *shared, TimestampTz now)
{
    static Look look;
    if (settings.retention_s == 0)
    {
        look = {};
        write_reasons(look); // nothing is held back that is not wanted
        return kLongestPauseMs;
    }
    if (!look_around(now, &look))
        return kRetryMs;
    int pause = look.more_ticks ? kShortestPauseMs : usual_pause();
    for (int slot = 0; slot < kRingSlots; slot++)
    {
        const Verdict verdict = look.slots[slot].verdict;
        if (verdict != Verdict::failed_first && verdict != Verdict::due)
            continue;
        bool waits = false;
        if (verdict == Verdict::failed_first)
            waits = !move_failed_events(look, slot);
        else
            truncate_if_due(&look, slot);
        if (waits || look.slots[slot].verdict == Verdict::held)
        {
            pause = Min(pause, kRetryMs);
            continue;
        }
        pause = kShortestPauseMs;
        break; // the others in the next round: publishing waits
    }
    rotate(shared, &look, now);
    write_reasons(look);
    return pause;
}

} // namespace outbox
