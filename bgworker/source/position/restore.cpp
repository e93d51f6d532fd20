#include "bgworker/source/events/partition_contents.h"

#include "position_store.h"
#include "restore.h"
#include "restored_dump.h"

#include "bgworker/source/spi_call.h"
#include "bgworker/source/subscription.h"

#include "extension/emit/event_numbers.h"

namespace outbox
{

namespace
{

// Restored numbers that an event of this database has, too.
constexpr const char *kTaken =
    "select exists (select from outbox.events x where x.xid >= 0 "
    " and x.seq <= (select max(y.seq) from outbox.events y where y.xid < 0))";

// The row of what was set aside that belongs to a restored event, by the numbers of both in the
// dump.
#define ITS_DELIVERY "r.event_id = u.id and r.seq = u.seq and greatest(r.xid, 1) = -u.xid"

constexpr const char *kMarkPublished =
    "update outbox.events u set xid = 0 from outbox.relay_position p "
    "where u.xid < 0 and " RESTORED " "
    "and (outbox.visible_in(-u.xid, p.from_snapshot) or "
    "(u.seq <= p.last_seq and outbox.visible_in(-u.xid, p.to_snapshot))) "
    "and not exists (select from outbox.restored_deliveries r where " ITS_DELIVERY ")";

// The restored sequence may be behind what was emitted here before the restore, or before the dump.
constexpr const char *kLargestNumber =
    "select coalesce((select max(e.seq) from outbox.events e where e.seq <= " LAST_POSSIBLE "), 0)";

#define DELIVERY_COLUMNS                                                                           \
    "(seq, xid, slot, event_id, lane, topic, partition_key, state, blocking, attempts, "           \
    "next_attempt_at, last_error, failed_at, settled_by, settled_at, reason, emitted_at, "         \
    "subscription) "
#define DELIVERY_VALUES                                                                            \
    "m.seq, 0, m.slot, m.id, m.lane, m.topic, m.partition_key, m.state, m.blocking, m.attempts, "  \
    "m.next_attempt_at, m.last_error, m.failed_at, m.settled_by, m.settled_at, m.reason, "         \
    "m.emitted_at, m.subscription "

#define RESTORED_COLUMNS                                                                           \
    "r.lane, r.topic, r.partition_key, r.state, r.blocking, r.attempts, r.next_attempt_at, "       \
    "r.last_error, r.failed_at, r.settled_by, r.settled_at, r.reason, r.emitted_at, "              \
    "r.subscription "

// In the old order: with the old numbers, so that they stay before what was emitted after the
// restore; with new ones when an event of this database has such a number already, as it is by
// their number that what was set aside is found. `published` counts the others.
constexpr const char *kAdopt =
    "with moved as (update outbox.events e set seq = n.seq, "
    "  xid = case when n.aside then 0 else pg_current_xact_id()::text::bigint end "
    " from (select o.tableoid, o.ctid, o.aside, o.delivery, "
    "   case when $1 then nextval('outbox.events_seq') else o.seq end as seq from "
    "  (select u.tableoid, u.ctid, u.seq, r.seq is not null as aside, r.ctid as delivery "
    "   from outbox.events u left join outbox.restored_deliveries r on " ITS_DELIVERY
    "   where u.xid < 0 order by u.seq) o) n "
    " where e.tableoid = n.tableoid and e.ctid = n.ctid "
    " returning e.seq, e.slot, e.id, n.aside, n.delivery), "
    "aside as (insert into outbox.deliveries " DELIVERY_COLUMNS "select " DELIVERY_VALUES "from "
    " (select a.seq, a.slot, a.id, " RESTORED_COLUMNS
    "  from moved a join outbox.restored_deliveries r on r.ctid = a.delivery where a.aside) m "
    " returning seq), "
    "done as (delete from outbox.restored_deliveries r using moved a where r.ctid = a.delivery) "
    "select (select count(*) from moved a where not a.aside), (select count(*) from aside)";

// Rows that came after their events were taken for published, which happens with dumps of before
// 0.2.1 only. They get numbers that no other event has.
constexpr const char *kFollow =
    "with moved as (update outbox.events e set seq = n.seq "
    " from (select o.tableoid, o.ctid, o.delivery, nextval('outbox.events_seq') as seq from "
    "  (select u.tableoid, u.ctid, r.ctid as delivery from outbox.restored_deliveries r "
    "   join outbox.events u on u.id = r.event_id and u.seq = r.seq and u.xid = 0 "
    "   order by u.seq) o) n "
    " where e.tableoid = n.tableoid and e.ctid = n.ctid "
    " returning e.seq, e.slot, e.id, n.delivery), "
    "done as (delete from outbox.restored_deliveries r using moved a where r.ctid = a.delivery) "
    "insert into outbox.deliveries " DELIVERY_COLUMNS "select " DELIVERY_VALUES "from "
    " (select a.seq, a.slot, a.id, " RESTORED_COLUMNS
    "  from moved a join outbox.restored_deliveries r on r.ctid = a.delivery) m";

// They are as old as their settling: when they were published is not known.
constexpr const char *kRestartAge = "update outbox.ring set restored_at = clock_timestamp()";

// Restored ticks are snapshots of another cluster.
constexpr const char *kForgetTicks = "delete from outbox.ticks";

// A dump that was counted is settled as a whole: nothing of it is still to come. Its position stays
// for published_total.
constexpr const char *kEndPositions =
    "update outbox.relay_position p set rows_counted = false where " RESTORED;
constexpr const char *kGiveUp =
    "update outbox.deliveries d set state = 'DISCARDED', blocking = false, next_attempt_at = null, "
    "topic = '', settled_at = clock_timestamp(), reason = 'subscription default was detached' "
    "where d.subscription = 'default' and d.state <> 'DISCARDED'";
constexpr const char *kEndDeliveries = "delete from outbox.restored_deliveries";
constexpr const char *kEndCounts =
    "with d as (delete from outbox.dump_rows returning table_name, bit) "
    "insert into outbox.dump_rows (table_name, bit) select distinct d.table_name, d.bit from d";

// Not by SQL: the planner would rather read a whole table than its index, and this is asked often.
// Leaves the snapshot by which it looked as the active one. Returns false when a table is locked.
bool
find_restored_events(bool *found)
{
    EventTables tables;
    const OpenResult opened = open_events(&tables);
    *found = opened == OpenResult::opened && has_restored_events(&tables);
    close_events(&tables);
    return opened != OpenResult::locked;
}

bool
lock_for_reading()
{
    return lock_with_indexes("relay_position", AccessShareLock) &&
           lock_with_indexes("restored_deliveries", AccessShareLock) &&
           lock_with_indexes("dump_rows", AccessShareLock);
}

// All that a decision reads, or changes. Otherwise `result` says that it waits, and `problem` for
// what.
bool
lock_to_decide(LOCKMODE mode, RestoreResult *result, char *problem, size_t problem_size)
{
    constexpr const char *kTables[] = {"relay_position", "deliveries", "restored_deliveries",
                                       "dump_rows",      "ticks",      "ring"};
    bool free = lock_events(mode) && lock_if_free("events_seq", mode);
    for (const char *table : kTables)
        free = free && lock_with_indexes(table, mode);
    result->waiting = result->undecided = !free;
    if (!free)
        snprintf(problem, problem_size, "a restored dump waits for a lock on outbox.%s",
                 table_in_the_way);
    return free;
}

void
settle_events(const WhatCame &came)
{
    // What is not of the dump counts as of now.
    spi_execute(kTaken, 0, nullptr, nullptr, SPI_OK_SELECT);
    const bool taken = truth_of(1);
    uint64 published = 0;
    if (!came.unsettled)
    {
        execute_on_dump(kMarkPublished, 0, nullptr, nullptr, SPI_OK_UPDATE);
        published = SPI_processed;
    }
    spi_execute(kLargestNumber, 0, nullptr, nullptr, SPI_OK_SELECT);
    raise_numbers_to(number_of(1));
    Oid types[] = {BOOLOID};
    Datum values[] = {BoolGetDatum(taken)};
    execute_on_dump(kAdopt, 1, types, values, SPI_OK_SELECT);
    const int64 adopted = number_of(1);
    const int64 aside = number_of(2);
    spi_execute(kForgetTicks, 0, nullptr, nullptr, SPI_OK_DELETE);
    spi_execute(kRestartAge, 0, nullptr, nullptr, SPI_OK_UPDATE);
    ereport(
        LOG,
        (errmsg("outbox: of the restored events " UINT64_FORMAT
                " were published before and " INT64_FORMAT " are published now",
                published, adopted),
         aside > 0 ? errdetail(INT64_FORMAT " were set aside before, and are again.", aside) : 0));
}

void
settle_counted(const WhatCame &came)
{
    if (came.events)
        settle_events(came);
    execute_on_dump(kEndPositions, 0, nullptr, nullptr, SPI_OK_UPDATE);
    execute_on_dump(kEndDeliveries, 0, nullptr, nullptr, SPI_OK_DELETE);
    execute_on_dump(kEndCounts, 0, nullptr, nullptr, SPI_OK_INSERT);
}

// Returns whether something was done.
bool
settle_uncounted(const WhatCame &came)
{
    if (came.events)
        settle_events(came);
    bool followed = false;
    if (came.deliveries)
    {
        execute_on_dump(kFollow, 0, nullptr, nullptr, SPI_OK_INSERT);
        followed = SPI_processed > 0;
    }
    return came.events || followed;
}

// Whether what is there can be settled, all of it or what has come so far.
bool
is_ready(const WhatCame &came, RestoreResult *result, char *problem, size_t problem_size)
{
    result->waiting = is_impossible(came, problem, problem_size);
    if (result->waiting)
        return false;
    // They do not matter where none of them decides.
    result->broken = came.positions > 1 && !came.unsettled;
    if (result->broken)
        snprintf(problem, problem_size,
                 "outbox.relay_position holds the rows of " INT64_FORMAT
                 " restored dumps; delete those that restored events do not belong to",
                 came.positions);
    // Without a position, and if none is to come, nothing of the dump was published: its relay
    // never ran. With a position that is not counted but counts, an operator has said that what is
    // there is all of it.
    else if (came.positions == 0 || came.counted)
        result->waiting =
            is_incomplete(came, problem, problem_size) || is_unsettled(came, problem, problem_size);
    return !result->broken && !result->waiting;
}

RestoreResult
decide(const WhatCame &came, char *problem, size_t problem_size)
{
    RestoreResult result = {};
    const bool counted = came.counts || came.counted;
    // Without anything else of a dump: an edit, or a rewrite of the table.
    if (came.edited && !came.events && !came.deliveries && !came.counts)
    {
        result.broken = true;
        snprintf(problem, problem_size, "outbox.relay_position cannot be used: %s",
                 kPositionChanged);
        return result;
    }
    // A single position that is not counted stays, and decides nothing by itself.
    const bool any = came.events || came.deliveries || counted || came.positions > 1;
    if (!any || !lock_to_decide(AccessShareLock, &result, problem, problem_size))
        return result;
    if (!is_ready(came, &result, problem, problem_size) ||
        !lock_to_decide(RowExclusiveLock, &result, problem, problem_size))
        return result;
    if (counted)
        settle_counted(came);
    result.settled = counted || settle_uncounted(came);
    // As when it was detached: nothing that it has set aside may hold a partition.
    if (result.settled && takes_nothing())
        execute_on_dump(kGiveUp, 0, nullptr, nullptr, SPI_OK_UPDATE);
    return result;
}

} // namespace

RestoreResult
settle_restored_events(char *problem, size_t problem_size)
{
    WhatCame came = {};
    RestoreResult result = {};
    result.locked = !find_restored_events(&came.events) || !lock_for_reading();
    if (result.locked)
        return result;
    look_at_dump_as_of(GetActiveSnapshot());
    spi_connect();
    read_what_came(&came);
    result = decide(came, problem, problem_size);
    result.no_position = !came.has_own;
    SPI_finish();
    return result;
}

} // namespace outbox
