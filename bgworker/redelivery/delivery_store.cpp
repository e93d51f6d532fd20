#include <utility>

#include "delivery_store.h"

#include "bgworker/guard.h"
#include "bgworker/spi_call.h"

namespace outbox
{

// An ERROR of what is between the two leaves it set.
static bool writing = false;

bool
take_write_failure() noexcept
{
    return std::exchange(writing, false);
}

namespace
{

// A statement that changes the table.
void
write(const char *statement, int count, Oid *types, Datum *values, int expected)
{
    writing = true;
    spi_execute(statement, count, types, values, expected);
    writing = false;
}

constexpr const char *kParkWaiting =
    "insert into outbox.deliveries (seq, xid, slot, event_id, lane, topic, partition_key, state, "
    "blocking) values ($1, $2, $3, $4, $5, $6, $7, 'WAITING', false) on conflict do nothing";

// A dump may bring any number.
#define ONE_MORE_ATTEMPT "least(d.attempts, 2147483646) operator(pg_catalog.+) 1"

constexpr const char *kParkRefused =
    "insert into outbox.deliveries as d (seq, xid, slot, event_id, lane, topic, partition_key, "
    "state, blocking, attempts, next_attempt_at, last_error, failed_at) "
    "values ($1, $2, $3, $4, $5, $6, $7, case when $11 operator(pg_catalog.=) 1 then 'FAILED' else "
    "'RETRYING' end, $8, 1, case when $11 operator(pg_catalog.=) 1 then null else $9 end, $10, "
    "pg_catalog.clock_timestamp()) "
    "on conflict (seq) do update set lane = excluded.lane, topic = excluded.topic, blocking = "
    "excluded.blocking, "
    "attempts = " ONE_MORE_ATTEMPT ", last_error = excluded.last_error, "
    "failed_at = coalesce(d.failed_at, excluded.failed_at), "
    "state = case when $11 operator(pg_catalog.>) 0 and " ONE_MORE_ATTEMPT " "
    "operator(pg_catalog.>=) $11 then 'FAILED' else 'RETRYING' end, "
    "next_attempt_at = case when $11 operator(pg_catalog.>) 0 and " ONE_MORE_ATTEMPT " "
    "operator(pg_catalog.>=) $11 then null else $9 end "
    "where d.state operator(pg_catalog.<>) 'DISCARDED' returning d.state";

constexpr const char *kNextDue =
    "select d.seq, d.xid, d.slot, d.lane, d.attempts from outbox.deliveries d "
    "where d.state operator(pg_catalog.=) 'RETRYING' and d.next_attempt_at "
    "operator(pg_catalog.<=) $1 order by d.next_attempt_at, d.seq limit 1 "
    "for no key update skip locked";

constexpr const char *kExists =
    "select from outbox.deliveries d where d.seq operator(pg_catalog.=) $1";

constexpr const char *kLock =
    "select from outbox.deliveries d where d.seq operator(pg_catalog.=) $1 "
    "for no key update skip locked";

constexpr const char *kNextDueAt =
    "select d.next_attempt_at from outbox.deliveries d where d.state operator(pg_catalog.=) "
    "'RETRYING' order by d.next_attempt_at limit 1";

constexpr const char *kWaiting =
    "select d.seq, d.xid, d.slot, d.lane, d.attempts from outbox.deliveries d "
    "where d.state operator(pg_catalog.=) 'WAITING' and d.lane operator(pg_catalog.=) $1 "
    "and d.seq operator(pg_catalog.>) $2 and d.seq operator(pg_catalog.<>) all ($4) "
    "order by d.seq limit $3";

constexpr const char *kSettled =
    "select d.seq from outbox.deliveries d where d.seq operator(pg_catalog.=) $1 "
    "and d.event_id operator(pg_catalog.=) $2 "
    "and not d.blocking and d.state operator(pg_catalog.<>) 'WAITING'";

constexpr const char *kLastSettled =
    "select d.seq from outbox.deliveries d where not d.blocking "
    "and d.state operator(pg_catalog.<>) 'WAITING' order by d.seq desc limit 1";

constexpr const char *kMove =
    "update outbox.deliveries d set lane = $2 where d.seq operator(pg_catalog.=) $1";

constexpr const char *kMoveTopic =
    "update outbox.deliveries d set lane = $2, topic = $3, "
    "state = case when d.state operator(pg_catalog.=) 'RETRYING' and d.blocking then 'WAITING' "
    "else d.state end, "
    "blocking = d.blocking and d.state operator(pg_catalog.=) 'FAILED', "
    "attempts = case when d.state operator(pg_catalog.=) 'FAILED' then d.attempts else 0 end, "
    "next_attempt_at = case when d.state operator(pg_catalog.=) 'RETRYING' and not d.blocking "
    "then pg_catalog.clock_timestamp() end "
    "where d.seq operator(pg_catalog.=) $1";

constexpr const char *kRemove =
    "with free as materialized (select d.seq from outbox.deliveries d where d.seq "
    "operator(pg_catalog.=) any ($1) for update skip locked) "
    "delete from outbox.deliveries d using free f where d.seq operator(pg_catalog.=) f.seq "
    "and d.state operator(pg_catalog.<>) 'DISCARDED'";

constexpr const char *kRemaining =
    "select d.seq from outbox.deliveries d where d.seq operator(pg_catalog.=) any ($1) "
    "and d.state operator(pg_catalog.<>) 'DISCARDED'";

constexpr const char *kBlocked =
    "select distinct d.lane from outbox.deliveries d where d.blocking and (d.state "
    "operator(pg_catalog.=) 'RETRYING' or d.state operator(pg_catalog.=) 'FAILED')";

// One look into the index for each lane, however many events wait in it.
constexpr const char *kWaitingLanes =
    "with recursive lanes (lane) as ("
    " (select d.lane from outbox.deliveries d where d.state operator(pg_catalog.=) 'WAITING' "
    "  order by d.lane limit 1)"
    " union all"
    " select (select d.lane from outbox.deliveries d where d.state operator(pg_catalog.=) "
    "'WAITING' "
    "         and d.lane operator(pg_catalog.>) l.lane order by d.lane limit 1)"
    " from lanes l where l.lane is not null)"
    "select l.lane from lanes l where l.lane is not null";

constexpr int kParkColumns = 7;

void
set_event(const ParkedEvent &event, Oid *types, Datum *values)
{
    const Oid event_types[] = {INT8OID, INT8OID, INT2OID, UUIDOID, INT8OID, TEXTOID, TEXTOID};
    memcpy(types, event_types, sizeof(event_types));
    values[0] = Int64GetDatum(event.seq);
    values[1] = Int64GetDatum(event.xid);
    values[2] = Int16GetDatum(static_cast<int16>(event.slot));
    values[3] = UUIDPGetDatum(event.event_id);
    values[4] = Int64GetDatum(static_cast<int64>(event.lane));
    values[5] = PointerGetDatum(
        cstring_to_text_with_len(event.topic.data(), static_cast<int>(event.topic.size())));
    values[6] = PointerGetDatum(
        cstring_to_text_with_len(event.key.data(), static_cast<int>(event.key.size())));
}

void
read_row(uint64 number, bool waiting, DeliveryRow *row)
{
    HeapTuple tuple = SPI_tuptable->vals[number];
    TupleDesc desc = SPI_tuptable->tupdesc;
    bool is_null;
    row->seq = DatumGetInt64(SPI_getbinval(tuple, desc, 1, &is_null));
    row->xid = DatumGetInt64(SPI_getbinval(tuple, desc, 2, &is_null));
    row->slot = DatumGetInt16(SPI_getbinval(tuple, desc, 3, &is_null));
    row->lane = static_cast<Lane>(DatumGetInt64(SPI_getbinval(tuple, desc, 4, &is_null)));
    row->attempts = DatumGetInt32(SPI_getbinval(tuple, desc, 5, &is_null));
    row->waiting = waiting;
}

void
select_lanes(const char *statement, std::vector<Lane> *lanes)
{
    spi_connect();
    spi_execute(statement, 0, nullptr, nullptr, SPI_OK_SELECT);
    for (uint64 i = 0; i < SPI_processed; i++)
    {
        bool is_null;
        const Lane lane = static_cast<Lane>(DatumGetInt64(
            SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1, &is_null)));
        call_cpp([&] { lanes->push_back(lane); });
    }
    SPI_finish();
}

} // namespace

void
park_waiting(const ParkedEvent &event)
{
    Oid types[kParkColumns];
    Datum values[kParkColumns];
    spi_connect();
    set_event(event, types, values);
    static SPIPlanPtr plan = nullptr;
    writing = true;
    spi_execute_kept(&plan, kParkWaiting, kParkColumns, types, values, SPI_OK_INSERT);
    writing = false;
    SPI_finish();
}

// Whether this transaction may change a row without waiting: there is none, or nobody else holds
// it.
static bool
is_free(int64 seq)
{
    Oid types[] = {INT8OID};
    Datum values[] = {Int64GetDatum(seq)};
    spi_connect();
    spi_execute(kExists, 1, types, values, SPI_OK_SELECT);
    bool free = SPI_processed == 0;
    if (!free)
    {
        spi_execute(kLock, 1, types, values, SPI_OK_SELECT);
        free = SPI_processed > 0;
    }
    SPI_finish();
    return free;
}

bool
park_refused(const ParkedEvent &event, const kafka::Failure &failure, bool blocking,
             TimestampTz next_attempt_at, int max_attempts)
{
    if (!is_free(event.seq))
        return false;
    Oid types[kParkColumns + 4];
    Datum values[kParkColumns + 4];
    spi_connect();
    set_event(event, types, values);
    char error[sizeof(failure.name) + sizeof(failure.text) + 2];
    snprintf(error, sizeof(error), "%s: %s", failure.name, failure.text);
    const Oid more[] = {BOOLOID, TIMESTAMPTZOID, TEXTOID, INT4OID};
    memcpy(types + kParkColumns, more, sizeof(more));
    values[kParkColumns] = BoolGetDatum(blocking);
    values[kParkColumns + 1] = TimestampTzGetDatum(next_attempt_at);
    values[kParkColumns + 2] = CStringGetTextDatum(error);
    values[kParkColumns + 3] = Int32GetDatum(max_attempts);
    write(kParkRefused, kParkColumns + 4, types, values, SPI_OK_INSERT_RETURNING);
    const bool given_up =
        SPI_processed == 1 &&
        strcmp(SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1), "FAILED") == 0;
    SPI_finish();
    return given_up;
}

bool
next_due(TimestampTz now, DeliveryRow *row)
{
    Oid types[] = {TIMESTAMPTZOID};
    Datum values[] = {TimestampTzGetDatum(now)};
    spi_connect();
    spi_execute(kNextDue, 1, types, values, SPI_OK_SELECT);
    const bool found = SPI_processed == 1;
    if (found)
        read_row(0, false, row);
    SPI_finish();
    return found;
}

TimestampTz
next_due_at()
{
    spi_connect();
    spi_execute(kNextDueAt, 0, nullptr, nullptr, SPI_OK_SELECT);
    TimestampTz at = 0;
    bool is_null;
    if (SPI_processed == 1)
        at = DatumGetTimestampTz(
            SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &is_null));
    SPI_finish();
    return at;
}

ArrayType *
int8_array(Datum *elements, size_t count)
{
    return construct_array(elements, static_cast<int>(count), INT8OID, sizeof(int64),
                           FLOAT8PASSBYVAL, TYPALIGN_DOUBLE);
}

bool
has_settled_row(int64 seq, const pg_uuid_t &event_id)
{
    Oid types[] = {INT8OID, UUIDOID};
    Datum values[] = {Int64GetDatum(seq), UUIDPGetDatum(&event_id)};
    spi_connect();
    static SPIPlanPtr plan = nullptr;
    spi_execute_kept(&plan, kSettled, 2, types, values, SPI_OK_SELECT);
    const bool found = SPI_processed > 0;
    SPI_finish();
    return found;
}

int64
last_settled_seq()
{
    spi_connect();
    spi_execute(kLastSettled, 0, nullptr, nullptr, SPI_OK_SELECT);
    bool is_null;
    const int64 seq = SPI_processed == 0
                          ? PG_INT64_MIN
                          : DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0],
                                                        SPI_tuptable->tupdesc, 1, &is_null));
    SPI_finish();
    return seq;
}

int
waiting_of_lane(Lane lane, int64 after, ArrayType *left_out, DeliveryRow *rows, int count)
{
    Oid types[] = {INT8OID, INT8OID, INT8OID, INT8ARRAYOID};
    Datum values[] = {Int64GetDatum(static_cast<int64>(lane)), Int64GetDatum(after),
                      Int64GetDatum(static_cast<int64>(count)), PointerGetDatum(left_out)};
    spi_connect();
    spi_execute(kWaiting, 4, types, values, SPI_OK_SELECT);
    const int found = static_cast<int>(SPI_processed);
    for (int i = 0; i < found; i++)
        read_row(static_cast<uint64>(i), true, &rows[i]);
    SPI_finish();
    return found;
}

bool
move_to_lane(int64 seq, Lane lane)
{
    if (!is_free(seq))
        return false;
    Oid types[] = {INT8OID, INT8OID};
    Datum values[] = {Int64GetDatum(seq), Int64GetDatum(static_cast<int64>(lane))};
    spi_connect();
    write(kMove, 2, types, values, SPI_OK_UPDATE);
    SPI_finish();
    return true;
}

void
move_to_topic(int64 seq, std::string_view topic, Lane lane)
{
    if (!is_free(seq))
        return;
    Oid types[] = {INT8OID, INT8OID, TEXTOID};
    Datum values[] = {
        Int64GetDatum(seq), Int64GetDatum(static_cast<int64>(lane)),
        PointerGetDatum(cstring_to_text_with_len(topic.data(), static_cast<int>(topic.size())))};
    spi_connect();
    static SPIPlanPtr plan = nullptr;
    writing = true;
    spi_execute_kept(&plan, kMoveTopic, 3, types, values, SPI_OK_UPDATE);
    writing = false;
    SPI_finish();
}

void
remove_delivered(std::vector<std::int64_t> &seqs)
{
    spi_connect();
    Datum *elements = static_cast<Datum *>(palloc(sizeof(Datum) * seqs.size()));
    for (size_t i = 0; i < seqs.size(); i++)
        elements[i] = Int64GetDatum(seqs[i]);
    Oid types[] = {INT8ARRAYOID};
    Datum values[] = {PointerGetDatum(int8_array(elements, seqs.size()))};
    write(kRemove, 1, types, values, SPI_OK_DELETE);
    const bool all = SPI_processed == seqs.size();
    seqs.clear();
    if (!all)
    {
        spi_execute(kRemaining, 1, types, values, SPI_OK_SELECT);
        for (uint64 i = 0; i < SPI_processed; i++)
        {
            bool is_null;
            seqs.push_back(DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc,
                                                       1, &is_null))); // never more than there were
        }
    }
    SPI_finish();
}

void
blocked_lanes(std::vector<Lane> *lanes)
{
    select_lanes(kBlocked, lanes);
}

void
waiting_lanes(std::vector<Lane> *lanes)
{
    select_lanes(kWaitingLanes, lanes);
}

bool
is_paused()
{
    spi_connect();
    spi_execute("select from outbox.pauses limit 1", 0, nullptr, nullptr, SPI_OK_SELECT);
    const bool paused = SPI_processed > 0;
    SPI_finish();
    return paused;
}

} // namespace outbox
