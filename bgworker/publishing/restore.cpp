#include "bgworker/records/event_reader.h"

#include "restore.h"

#include "bgworker/spi_call.h"

namespace outbox
{

namespace
{

// A position that is not of this cluster, or not where the relay put it.
#define RESTORED                                                                                   \
    "(p.system_identifier operator(pg_catalog.<>) outbox.system_identifier() or "                  \
    "p.xmin operator(pg_catalog.<>) p.written_by::xid)"

constexpr const char *kPositions =
    "select pg_catalog.count(*) from outbox.relay_position p where " RESTORED;

constexpr const char *kMarkPublished =
    "update outbox.events e set xid = 0 from outbox.relay_position p "
    "where e.xid operator(pg_catalog.<) 0 and " RESTORED " "
    "and (outbox.visible_in(operator(pg_catalog.-) e.xid, p.from_snapshot) or "
    "(e.seq operator(pg_catalog.<=) p.last_seq and "
    "outbox.visible_in(operator(pg_catalog.-) e.xid, p.to_snapshot)))";

// The restored sequence may be behind what was emitted here before the restore.
constexpr const char *kRaiseSequence =
    "select pg_catalog.setval('outbox.events_seq', greatest(s.last_value, "
    "(select pg_catalog.max(e.seq) from outbox.events e), 1)) from outbox.events_seq s";

// In the old order: with the old numbers, so that they stay before what was emitted after the
// restore; with new ones when an event of this database has such a number already.
constexpr const char *kAdopt =
    "update outbox.events e set xid = pg_catalog.pg_current_xact_id()::text::bigint, seq = n.seq "
    "from (select o.tableoid, o.ctid, case when o.taken then "
    "pg_catalog.nextval('outbox.events_seq') "
    "             else o.seq end as seq from "
    "      (select u.tableoid, u.ctid, u.seq, t.taken from outbox.events u cross join "
    "       (select exists (select from outbox.events x where x.xid operator(pg_catalog.>) 0 and "
    "         x.seq operator(pg_catalog.<=) (select pg_catalog.max(y.seq) from outbox.events y "
    "           where y.xid operator(pg_catalog.<) 0)) as taken) t "
    "       where u.xid operator(pg_catalog.<) 0 order by u.seq) o) n "
    "where e.tableoid operator(pg_catalog.=) n.tableoid and e.ctid operator(pg_catalog.=) n.ctid";

// What was set aside is found by these numbers.
constexpr const char *kFollowEvents =
    "update outbox.deliveries d set xid = e.xid, seq = e.seq, slot = e.slot from outbox.events e "
    "where e.id operator(pg_catalog.=) d.event_id and e.xid operator(pg_catalog.>=) 0 "
    "and (d.xid operator(pg_catalog.<>) e.xid or d.seq operator(pg_catalog.<>) e.seq)";

// They are as old as their settling: nobody knows when they were published.
constexpr const char *kRestartAge =
    "update outbox.ring set restored_at = pg_catalog.clock_timestamp()";

// Restored ticks are snapshots of another cluster.
constexpr const char *kForgetTicks = "delete from outbox.ticks";

int64
count_restored_positions()
{
    spi_execute(kPositions, 0, nullptr, nullptr, SPI_OK_SELECT);
    bool is_null;
    return DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &is_null));
}

// Not by SQL: the planner would rather read a whole table than its index, and this is asked often.
bool
look_for_restored_events()
{
    EventTables tables;
    const bool found = open_events(&tables) == OpenResult::opened && has_restored_events(&tables);
    close_events(&tables);
    return found;
}

} // namespace

RestoreResult
settle_restored_events(char *problem, size_t problem_size)
{
    RestoreResult result = {};
    const bool events = look_for_restored_events();
    spi_connect();
    const int64 positions = count_restored_positions();
    if (positions > 1)
    {
        snprintf(problem, problem_size,
                 "outbox.relay_position holds the rows of " INT64_FORMAT
                 " restored dumps; delete those that restored events do not belong to",
                 positions);
        result.broken = true;
    }
    // Without a position it is not known what was published: the row may still be on its way.
    else if (events && positions == 1)
    {
        spi_execute(kMarkPublished, 0, nullptr, nullptr, SPI_OK_UPDATE);
        const uint64 published = SPI_processed;
        spi_execute(kRaiseSequence, 0, nullptr, nullptr, SPI_OK_SELECT);
        spi_execute(kAdopt, 0, nullptr, nullptr, SPI_OK_UPDATE);
        const uint64 adopted = SPI_processed;
        spi_execute(kFollowEvents, 0, nullptr, nullptr, SPI_OK_UPDATE);
        spi_execute(kForgetTicks, 0, nullptr, nullptr, SPI_OK_DELETE);
        spi_execute(kRestartAge, 0, nullptr, nullptr, SPI_OK_UPDATE);
        ereport(LOG, (errmsg("outbox: of the restored events " UINT64_FORMAT
                             " were published before and " UINT64_FORMAT " are published now",
                             published, adopted)));
        result.settled = true;
    }
    SPI_finish();
    return result;
}

} // namespace outbox
