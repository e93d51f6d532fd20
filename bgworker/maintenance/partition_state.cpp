#include "bgworker/source/events/partition_contents.h"

#include "partition_state.h"

#include "detaching.h"

#include "bgworker/source/replay_tables.h"

namespace outbox
{

bool
lock_ring_tables()
{
    return OidIsValid(get_extension_oid("outbox", true)) &&
           lock_wholly("relay_position", AccessShareLock) &&
           lock_wholly("deliveries", RowExclusiveLock) && lock_wholly("ticks", RowExclusiveLock) &&
           lock_wholly("ring", RowExclusiveLock) && lock_wholly("subscriptions", AccessShareLock) &&
           lock_replay_tables() != OpenResult::locked;
}

void
hold(Judgement *judgement, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void) vsnprintf(judgement->reason, sizeof(judgement->reason), format, arguments);
    va_end(arguments);
    judgement->state = PartitionState::held;
}

void
read_facts(RingFacts *facts, TimestampTz cutoff)
{
    facts->cutoff = cutoff;
    facts->current = read_ring(facts->rows);
    facts->has_published = read_published(&facts->published);
    facts->has_old = read_old(cutoff, &facts->old);
}

namespace
{

// Whether the subscription holds events of the partition back for longer than it may.
bool
is_lagging(int slot, const Reader &reader)
{
    if (reader.max_lag.seconds == 0)
        return false;
    const TimestampTz limit = GetCurrentTimestamp() - reader.max_lag.seconds * INT64CONST(1000000);
    return reader.attached_at < limit && holds_since(slot, reader, limit);
}

void
judge_reader(EventTables *tables, int slot, const Reader &reader, Judgement *judgement)
{
    const bool beyond = has_events_beyond(tables, slot, reader.published);
    if (!beyond && !has_unsettled(slot, reader))
        return;
    if (reader.detached)
    {
        note_missing(slot, reader);
        judgement->is_missed = true;
        if (is_still_served(reader))
            hold(judgement, "the relay of subscription %s, which is detached and ends",
                 reader.name);
        return;
    }
    if (is_lagging(slot, reader))
        note_lagging(reader);
    if (judgement->state != PartitionState::held) // the first one is named
        hold(judgement,
             beyond ? "events that subscription %s has not passed"
                    : "refused or waiting events of subscription %s",
             reader.name);
}

// By the other subscriptions. Static, as the snapshot's memory
// must outlive an error.
void
judge_readers(EventTables *tables, int slot, Judgement *judgement)
{
    static Reader reader;
    reader.name[0] = '\0';
    begin_missing(slot);
    while (read_next_reader(&reader))
        judge_reader(tables, slot, reader, judgement);
}

} // namespace

void
judge(EventTables *tables, const RingFacts &facts, int slot, Judgement *judgement)
{
    *judgement = {};
    const RingRow &row = facts.rows[slot];
    if (slot == facts.current)
        judgement->state = PartitionState::current;
    else if (tables->slots[slot].index == nullptr)
        judgement->state = PartitionState::empty;
    else if (row.ended_at > facts.cutoff)
        judgement->state = PartitionState::filled;
    else if (!facts.has_published || has_events_beyond(tables, slot, facts.published))
        hold(judgement, "events that are not published");
    else if (!facts.has_old || has_events_beyond(tables, slot, facts.old) ||
             (row.restored_at > facts.cutoff && has_events_of(tables, slot, 0)))
        hold(judgement, "events published within outbox.retention");
    else
    {
        const SetAside aside = events_set_aside(slot);
        judgement->state = aside.settled > 0 ? PartitionState::failed_first : PartitionState::due;
        const char *replay = replay_that_needs(slot);
        if (aside.unsettled > 0)
            hold(judgement, "%s" INT64_FORMAT " refused or waiting events",
                 aside.unsettled < kMostCounted ? "" : "at least ", aside.unsettled);
        else if (replay != nullptr)
            hold(judgement, "events of replay %s", replay);
        else
            judge_readers(tables, slot, judgement);
    }
}

} // namespace outbox
