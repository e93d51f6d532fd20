#include "restored_dump.h"

#include "bgworker/source/spi_call.h"

namespace outbox
{

namespace
{

constexpr const char *kWhatCame =
    "select count(*), bool_or(p.rows_counted), "
    "bool_or(p.system_identifier = outbox.system_identifier() and p.database_oid = "
    " (select d.oid from pg_database d where d.datname = current_database())), "
    "exists (select from outbox.current_position), "
    "exists (select from outbox.restored_deliveries), " COUNTED("dump") ", " COUNTED(
        "unsettled") " "
                     "from outbox.relay_position p where " RESTORED;

#define COUNT_RESTORED(slot)                                                                       \
    "union all select 'events_" slot "', (select count(*) from outbox.events_" slot                \
    " e where e.xid < 0) "
#define COUNT_RESTORED_EVENTS                                                                      \
    COUNT_RESTORED("0")                                                                            \
    COUNT_RESTORED("1")                                                                            \
    COUNT_RESTORED("2")                                                                            \
    COUNT_RESTORED("3")                                                                            \
    COUNT_RESTORED("4") COUNT_RESTORED("5") COUNT_RESTORED("6") COUNT_RESTORED("7")

// A table of which other than the counted rows have come, if there is one.
constexpr const char *kMissing =
    "with counted as (select t.table_name, sum(1::bigint << t.bit)::bigint as n "
    " from (select d.table_name, d.bit from outbox.dump_rows d where d.bit >= 0 and d.bit < 40 "
    "  group by d.table_name, d.bit having count(*) > 1) t group by t.table_name), "
    "restored (table_name, n) as ("
    " select 'relay_position', (select count(*) from outbox.relay_position p where " RESTORED ") "
    " union all select 'deliveries', (select count(*) from "
    "outbox.restored_deliveries) " COUNT_RESTORED_EVENTS ") "
    "select r.table_name, r.n, coalesce(c.n, 0) "
    "from restored r left join counted c on c.table_name = r.table_name "
    "where r.n <> coalesce(c.n, 0) order by r.table_name limit 1";

// Restored events with numbers that none of ours has.
constexpr const char *kImpossible =
    "select e.id::text, format('seq %s, xid %s', e.seq, e.xid), count(*) over () "
    "from outbox.events e where e.xid < 0 and (e.seq < 1 or e.seq > " LAST_POSSIBLE
    " or e.xid < '-" LAST_POSSIBLE "'::bigint) order by e.seq, e.id limit 1";

Snapshot as_of = InvalidSnapshot;

} // namespace

void
look_at_dump_as_of(Snapshot snapshot)
{
    as_of = snapshot;
}

void
execute_on_dump(const char *statement, int count, Oid *types, Datum *values, int expected)
{
    spi_execute_as_of(as_of, spi_prepare(statement, count, types), values, expected);
}

int64
number_of(int column)
{
    return DatumGetInt64(spi_first(column));
}

bool
truth_of(int column)
{
    bool is_null;
    const Datum value = spi_first(column, &is_null);
    return !is_null && DatumGetBool(value);
}

void
read_what_came(WhatCame *came)
{
    // Once a second: to plan it each time was half of what an idle relay took.
    static SPIPlanPtr plan = nullptr;
    spi_execute_as_of(as_of, spi_keep(&plan, kWhatCame, 0, nullptr), nullptr, SPI_OK_SELECT);
    came->positions = number_of(1);
    came->counted = truth_of(2);
    came->has_own = truth_of(4);
    came->edited = truth_of(3) && !came->has_own;
    came->deliveries = truth_of(5);
    came->counts = truth_of(6);
    came->unsettled = truth_of(7);
}

bool
is_impossible(const WhatCame &came, char *problem, size_t problem_size)
{
    if (!came.events)
        return false;
    execute_on_dump(kImpossible, 0, nullptr, nullptr, SPI_OK_SELECT);
    if (SPI_processed == 0)
        return false;
    snprintf(problem, problem_size,
             "restored event %s in outbox.events has impossible numbers (%s); correct or delete "
             "the row (such rows: " INT64_FORMAT ")",
             spi_first_text(1), spi_first_text(2), number_of(3));
    return true;
}

bool
is_incomplete(const WhatCame &came, char *problem, size_t problem_size)
{
    if (!came.counts)
    {
        snprintf(problem, problem_size, "a restored dump is not complete: outbox.%s is not there",
                 came.positions == 0 ? "relay_position" : "dump_rows");
        return true;
    }
    execute_on_dump(kMissing, 0, nullptr, nullptr, SPI_OK_SELECT);
    if (SPI_processed == 0)
        return false;
    snprintf(problem, problem_size,
             "a restored dump is not complete: outbox.%s has " INT64_FORMAT
             " restored rows, the dump had " INT64_FORMAT,
             spi_first_text(1), number_of(2), number_of(3));
    return true;
}

bool
is_unsettled(const WhatCame &came, char *problem, size_t problem_size)
{
    if (came.unsettled)
        snprintf(problem, problem_size,
                 "a restored dump was made while what another dump had brought was not settled, so "
                 "it is not known what was published; see docs/recovery.md");
    return came.unsettled;
}

} // namespace outbox
