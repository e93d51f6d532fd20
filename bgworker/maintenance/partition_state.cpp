#include "bgworker/source/events/partition_contents.h"

#include "partition_state.h"

#include "bgworker/source/replay_tables.h"

namespace outbox
{

bool
lock_ring_tables()
{
    return OidIsValid(get_extension_oid("outbox", true)) &&
           lock_wholly("relay_position", AccessShareLock) &&
           lock_wholly("deliveries", RowExclusiveLock) && lock_wholly("ticks", RowExclusiveLock) &&
           lock_wholly("ring", RowExclusiveLock) && lock_replay_tables() != OpenResult::locked;
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

// The name of a subscription that has not passed all events of the partition; null: all have.
// Static, as the snapshot's memory must outlive an error.
const char *
subscription_before(EventTables *tables, int slot)
{
    static char name[NAMEDATALEN];
    static XidSnapshot published;
    name[0] = '\0';
    while (read_next_subscription(name, sizeof(name), &published))
        if (has_events_beyond(tables, slot, published))
            return name;
    return nullptr;
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
    else if (const char *behind = subscription_before(tables, slot); behind != nullptr)
        hold(judgement, "events that subscription %s has not passed", behind);
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
    }
}

} // namespace outbox
