#include "ring_store.h"

#include "bgworker/guard.h"
#include "bgworker/source/records/attempt.h"
#include "bgworker/source/spi_call.h"

namespace outbox
{

namespace
{

constexpr const char *kRead = "select r.slot, r.is_current, r.began_at, r.ended_at, r.restored_at, "
                              "r.held_back_by is not null "
                              "from outbox.ring r";

constexpr const char *kPublished = "select p.from_snapshot::text from outbox.current_position p";

// The position is not written again when there is nothing to publish, and a tick at most once a
// second: one of the two covers the last events. Ticks of a dump are of another history.
constexpr const char *kOld =
    "select coalesce("
    "(select p.from_snapshot::text from outbox.current_position p where p.updated_at <= $1), "
    "(select t.snapshot::text from outbox.ticks t "
    " where t.published_at <= $1 and t.xmin = t.written_by::xid "
    " order by t.published_at desc, t.next_xid desc limit 1))";

// Times of a clock that was set forward for a while count as now, or nothing would be old for as
// long. A clock that is a little ahead is none of it.
#define A_MINUTE_AHEAD "(clock_timestamp() + '1 minute'::interval) "

constexpr const char *kAnyLater =
    "select exists (select from outbox.ring r "
    " where greatest(r.began_at, r.ended_at, r.restored_at) > " A_MINUTE_AHEAD ") "
    "or exists (select from outbox.ticks t "
    " where t.published_at > " A_MINUTE_AHEAD "and t.xmin = t.written_by::xid) "
    "or exists (select from outbox.current_position p where p.updated_at > " A_MINUTE_AHEAD ")";

constexpr const char *kRingIsNow =
    "update outbox.ring r set began_at = least(r.began_at, n.now), "
    "ended_at = least(r.ended_at, n.now), restored_at = least(r.restored_at, n.now) "
    "from (select clock_timestamp() as now) n "
    "where greatest(r.began_at, r.ended_at, r.restored_at) > " A_MINUTE_AHEAD;

constexpr const char *kTicksAreNow =
    "update outbox.ticks t "
    "set published_at = clock_timestamp(), written_by = pg_current_xact_id() "
    "where t.published_at > " A_MINUTE_AHEAD "and t.xmin = t.written_by::xid";

constexpr const char *kPositionIsNow =
    "update outbox.relay_position p "
    "set updated_at = clock_timestamp(), written_by = pg_current_xact_id() "
    "where p.updated_at > " A_MINUTE_AHEAD "and p.system_identifier = outbox.system_identifier() "
    "and p.database_oid = $1 and p.xmin = p.written_by::xid and p.subscription = 'default'";

constexpr const char *kSetAside =
    "select (select count(*) from (select from outbox.deliveries d "
    " where d.slot = $1 and d.subscription = 'default' "
    " and d.state = any ('{RETRYING,WAITING}') limit 10000) u), "
    "(select count(*) from (select from outbox.deliveries d "
    " where d.slot = $1 and d.state = any ('{FAILED,DISCARDED}') and d.topic <> '' limit 1) s)";

constexpr const char *kSettled =
    "select d.seq, d.xid from outbox.deliveries d "
    "where d.slot = $1 and d.state = any ('{FAILED,DISCARDED}') and d.topic <> '' "
    "order by d.seq limit $2 for update skip locked";

constexpr const char *kFollow = "update outbox.deliveries d set slot = $2 where d.seq = $1";

constexpr const char *kEnd =
    "update outbox.ring r set is_current = false, ended_at = clock_timestamp(), "
    "held_back_by = null, held_back_since = null "
    "where r.is_current or r.slot = $1";

constexpr const char *kBegin = "update outbox.ring r set is_current = true, turns = r.turns + 1, "
                               "began_at = clock_timestamp(), ended_at = null, "
                               "held_back_by = null, held_back_since = null "
                               "where r.slot = $1";

constexpr const char *kTruncated =
    "update outbox.ring r set truncations = r.truncations + 1, truncated_at = clock_timestamp(), "
    "ended_at = null, restored_at = null, held_back_by = null, held_back_since = null "
    "where r.slot = $1";

constexpr const char *kHeldBack =
    "update outbox.ring r set held_back_by = $2, held_back_since = "
    "case when $2 is null then null else coalesce(r.held_back_since, clock_timestamp()) end "
    "where r.slot = $1";

constexpr const char *kRemoveTicks =
    "delete from outbox.ticks t where t.ctid = any (array("
    " select o.ctid from outbox.ticks o where o.next_xid <= $1 order by o.next_xid limit $2))";

// Of events that a copied database has left to its original; see leave_to_original().
constexpr const char *kForgetLeft =
    "delete from outbox.deliveries d where d.slot = $1 and d.topic = ''";

TimestampTz
time_of(uint64 row, int column)
{
    bool is_null;
    const Datum time = spi_value(row, column, &is_null);
    return is_null ? 0 : DatumGetTimestampTz(time);
}

// The result of a statement that gives one snapshot, or none.
bool
read_snapshot(XidSnapshot *snapshot)
{
    char *text = SPI_processed == 1 ? spi_first_text(1) : nullptr;
    bool parsed = false;
    if (text != nullptr)
        call_cpp([&] { parsed = XidSnapshot::parse(text, *snapshot); });
    return parsed;
}

void
execute_for_slot(const char *statement, int slot, int expected)
{
    Oid types[] = {INT2OID};
    Datum values[] = {Int16GetDatum(static_cast<int16>(slot))};
    spi_execute(statement, 1, types, values, expected);
}

// Logged once for each event: the partition stays as it is until that is removed.
void
warn_unmovable(int slot, int64 seq, const Failure &why)
{
    static int64 logged = PG_INT64_MIN;
    if (seq == logged)
        return;
    logged = seq;
    ereport(WARNING,
            (errcode(ERRCODE_DATA_CORRUPTED),
             errmsg("outbox: event number " INT64_FORMAT " cannot be moved from outbox.events_%d: "
                    "%s: %s",
                    seq, slot, why.name, why.text),
             errdetail("It failed or was discarded, and its partition is not emptied before it is "
                       "moved."),
             errhint("Repair the row, or discard the event and delete both rows, this one and "
                     "that of outbox.deliveries.")));
}

// Returns false when the row cannot be read.
bool
move_event(EventTables *tables, int from, int to, int64 xid, int64 seq)
{
    EventRow event;
    EventTables::Slot &slot = tables->slots[from];
    if (find_event(tables, from, xid, seq, GetCurrentTimestamp(), &event) && event.slot == from)
    {
        ItemPointerData place = slot.row->tts_tid;
        Failure why;
        const auto move = [&]
        {
            copy_event(slot.table, slot.row, to);
            // Only the relay changes rows; another change would be an error.
            simple_table_tuple_delete(slot.table, &place, GetActiveSnapshot());
        };
        if (!attempt(move, &why))
        {
            warn_unmovable(from, seq, why);
            return false;
        }
    }
    Oid types[] = {INT8OID, INT2OID};
    Datum values[] = {Int64GetDatum(seq), Int16GetDatum(static_cast<int16>(to))};
    spi_execute(kFollow, 2, types, values, SPI_OK_UPDATE);
    return true;
}

} // namespace

int
read_ring(RingRow *rows)
{
    int current = 0;
    memset(rows, 0, sizeof(RingRow) * kRingSlots);
    spi_connect();
    static SPIPlanPtr plan = nullptr;
    spi_execute_kept(&plan, kRead, 0, nullptr, nullptr, SPI_OK_SELECT);
    for (uint64 i = 0; i < SPI_processed; i++)
    {
        const int slot = DatumGetInt16(spi_value(i, 1));
        if (slot < 0 || slot >= kRingSlots)
            continue;
        if (DatumGetBool(spi_value(i, 2)))
            current = slot;
        rows[slot] = {time_of(i, 3), time_of(i, 4), time_of(i, 5), DatumGetBool(spi_value(i, 6))};
    }
    SPI_finish();
    return current;
}

bool
read_published(XidSnapshot *published)
{
    spi_connect();
    static SPIPlanPtr plan = nullptr;
    spi_execute_kept(&plan, kPublished, 0, nullptr, nullptr, SPI_OK_SELECT);
    const bool known = read_snapshot(published);
    SPI_finish();
    return known;
}

bool
read_old(TimestampTz cutoff, XidSnapshot *old)
{
    Oid types[] = {TIMESTAMPTZOID};
    Datum values[] = {TimestampTzGetDatum(cutoff)};
    spi_connect();
    static SPIPlanPtr plan = nullptr;
    spi_execute_kept(&plan, kOld, 1, types, values, SPI_OK_SELECT);
    const bool known = read_snapshot(old);
    SPI_finish();
    return known;
}

SetAside
events_set_aside(int slot)
{
    spi_connect();
    execute_for_slot(kSetAside, slot, SPI_OK_SELECT);
    const SetAside counts = {DatumGetInt64(spi_first(1)), DatumGetInt64(spi_first(2))};
    SPI_finish();
    return counts;
}

uint64
move_settled(EventTables *tables, int from, int to, int count)
{
    Oid types[] = {INT2OID, INT8OID};
    Datum values[] = {Int16GetDatum(static_cast<int16>(from)), Int64GetDatum(count)};
    spi_connect();
    spi_execute(kSettled, 2, types, values, SPI_OK_SELECT);
    SPITupleTable *found = SPI_tuptable;
    const uint64 rows = SPI_processed;
    uint64 moved = 0;
    const MemoryContext outer = CurrentMemoryContext;
    const MemoryContext one = AllocSetContextCreate(outer, "outbox event", ALLOCSET_DEFAULT_SIZES);
    for (uint64 i = 0; i < rows; i++)
    {
        bool is_null;
        const int64 seq = DatumGetInt64(SPI_getbinval(found->vals[i], found->tupdesc, 1, &is_null));
        const int64 xid = DatumGetInt64(SPI_getbinval(found->vals[i], found->tupdesc, 2, &is_null));
        (void) MemoryContextSwitchTo(one);
        moved += move_event(tables, from, to, xid, seq) ? 1 : 0;
        (void) MemoryContextSwitchTo(outer);
        MemoryContextReset(one);
    }
    SPI_finish();
    return moved;
}

void
write_current(int before, int slot)
{
    spi_connect();
    execute_for_slot(kEnd, before, SPI_OK_UPDATE);
    execute_for_slot(kBegin, slot, SPI_OK_UPDATE);
    SPI_finish();
}

void
write_truncated(int slot)
{
    spi_connect();
    execute_for_slot(kForgetLeft, slot, SPI_OK_DELETE);
    execute_for_slot(kTruncated, slot, SPI_OK_UPDATE);
    SPI_finish();
}

void
write_held_back(int slot, const char *by)
{
    Oid types[] = {INT2OID, TEXTOID};
    Datum values[] = {Int16GetDatum(static_cast<int16>(slot)),
                      by == nullptr ? static_cast<Datum>(0) : CStringGetTextDatum(by)};
    const char nulls[] = {' ', by == nullptr ? 'n' : ' ', '\0'};
    spi_connect();
    spi_expect(SPI_execute_with_args(kHeldBack, 2, types, values, nulls, false, 0), SPI_OK_UPDATE);
    SPI_finish();
}

bool
has_later_times()
{
    spi_connect();
    static SPIPlanPtr plan = nullptr;
    spi_execute_kept(&plan, kAnyLater, 0, nullptr, nullptr, SPI_OK_SELECT);
    const bool any = DatumGetBool(spi_first(1));
    SPI_finish();
    return any;
}

void
make_later_times_now()
{
    Oid types[] = {OIDOID};
    Datum values[] = {ObjectIdGetDatum(MyDatabaseId)};
    spi_connect();
    spi_execute(kRingIsNow, 0, nullptr, nullptr, SPI_OK_UPDATE);
    spi_execute(kTicksAreNow, 0, nullptr, nullptr, SPI_OK_UPDATE);
    spi_execute(kPositionIsNow, 1, types, values, SPI_OK_UPDATE);
    SPI_finish();
}

bool
remove_ticks(int64 lowest, int count)
{
    Oid types[] = {INT8OID, INT8OID};
    Datum values[] = {Int64GetDatum(lowest), Int64GetDatum(count)};
    spi_connect();
    spi_execute(kRemoveTicks, 2, types, values, SPI_OK_DELETE);
    const bool more = SPI_processed == static_cast<uint64>(count);
    SPI_finish();
    return more;
}

} // namespace outbox
