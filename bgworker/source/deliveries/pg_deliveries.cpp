// Rows of outbox.deliveries come and go: events are set aside, and removed when they are published.

#include "bgworker/guard.h"

#include "pg_deliveries.h"

#include "delivery_values.h"
#include "same_number.h"

#include "bgworker/source/position/position_store.h"
#include "bgworker/source/relation_lock.h"
#include "bgworker/source/spi_call.h"
#include "bgworker/source/subscription.h"

#include "extension/server/server_text.h"

namespace outbox
{

namespace
{

constexpr const char *kAddWaiting =
    "insert into outbox.deliveries (seq, xid, slot, event_id, lane, topic, partition_key, "
    "emitted_at, subscription, state, blocking) "
    "values ($1, $2, $3, $4, $5, $6, $7, $8, $9, 'WAITING', false) "
    "on conflict do nothing";

// A dump may bring any number.
#define ONE_MORE_ATTEMPT "least(d.attempts, 2147483646) + 1"

constexpr const char *kAddRefused =
    "insert into outbox.deliveries as d (seq, xid, slot, event_id, lane, topic, partition_key, "
    "emitted_at, subscription, state, blocking, attempts, next_attempt_at, last_error, failed_at) "
    "values ($1, $2, $3, $4, $5, $6, $7, $8, $9, "
    "case when $13 = 1 then 'FAILED' else 'RETRYING' end, "
    "$10, 1, case when $13 = 1 then null else $11 end, $12, clock_timestamp()) "
    "on conflict (seq, subscription) do update set lane = excluded.lane, topic = excluded.topic, "
    "blocking = excluded.blocking, attempts = " ONE_MORE_ATTEMPT
    ", last_error = excluded.last_error, failed_at = coalesce(d.failed_at, excluded.failed_at), "
    "state = case when $13 > 0 and " ONE_MORE_ATTEMPT " >= $13 then 'FAILED' else 'RETRYING' end, "
    "next_attempt_at = case when $13 > 0 and " ONE_MORE_ATTEMPT " >= $13 then null else $11 end "
    "where d.state <> 'DISCARDED' and d.event_id = excluded.event_id returning d.state";

constexpr const char *kRemove =
    "with free as materialized "
    " (select d.seq from outbox.deliveries d where d.seq = any ($1) and d.subscription = $2 "
    "  for update skip locked) "
    "delete from outbox.deliveries d using free f "
    "where d.seq = f.seq and d.subscription = $2 and d.state <> 'DISCARDED'";

constexpr const char *kRemaining = "select d.seq from outbox.deliveries d "
                                   "where d.seq = any ($1) and d.subscription = $2 "
                                   "and d.state <> 'DISCARDED'";

constexpr int kAddColumns = 9;

void
set_event(const Event &event, Lane lane, Oid *types, Datum *values)
{
    const Oid event_types[] = {INT8OID, INT8OID, INT2OID,        UUIDOID, INT8OID,
                               TEXTOID, TEXTOID, TIMESTAMPTZOID, TEXTOID};
    memcpy(types, event_types, sizeof(event_types));
    values[0] = Int64GetDatum(event.numbers.seq);
    values[1] = Int64GetDatum(event.numbers.xid);
    values[2] = Int16GetDatum(static_cast<int16>(event.numbers.slot));
    values[3] = uuid_datum(event);
    values[4] = Int64GetDatum(static_cast<int64>(lane));
    values[5] = text_datum(event.topic);
    values[6] = text_datum(event.key);
    values[7] = TimestampTzGetDatum(event.emitted_at);
    values[8] = subscription_datum();
}

Written
write_refusal(const Event &event, Lane lane, const RefusalNote &note)
{
    Oid types[kAddColumns + 4];
    Datum values[kAddColumns + 4];
    spi_connect();
    set_event(event, lane, types, values);
    char error[sizeof(note.failure.name) + sizeof(note.failure.text) + 2];
    snprintf(error, sizeof(error), "%s: %s", note.failure.name, note.failure.text);
    const Oid more[] = {BOOLOID, TIMESTAMPTZOID, TEXTOID, INT4OID};
    memcpy(types + kAddColumns, more, sizeof(more));
    values[kAddColumns] = BoolGetDatum(note.blocking);
    values[kAddColumns + 1] = TimestampTzGetDatum(note.next_attempt_at);
    values[kAddColumns + 2] = PointerGetDatum(server_text(error)); // others write it
    values[kAddColumns + 3] = Int32GetDatum(note.max_attempts);
    spi_execute(kAddRefused, kAddColumns + 4, types, values, SPI_OK_INSERT_RETURNING);
    if (SPI_processed == 0 && displace_other(event))
        spi_execute(kAddRefused, kAddColumns + 4, types, values, SPI_OK_INSERT_RETURNING);
    Written result = Written::kept;
    if (SPI_processed == 1)
        result = strcmp(spi_first_text(1), "FAILED") == 0 ? Written::failed : Written::retrying;
    SPI_finish();
    return result;
}

std::size_t
remove_rows(std::vector<std::int64_t> &seqs)
{
    spi_connect();
    Oid types[] = {INT8ARRAYOID, TEXTOID};
    Datum values[] = {PointerGetDatum(int8_array(seqs.data(), seqs.size())), subscription_datum()};
    spi_execute(kRemove, 2, types, values, SPI_OK_DELETE);
    const auto removed = static_cast<std::size_t>(SPI_processed);
    const bool all = removed == seqs.size();
    seqs.clear();
    if (!all)
    {
        spi_execute(kRemaining, 2, types, values, SPI_OK_SELECT);
        for (uint64 i = 0; i < SPI_processed; i++)
            seqs.push_back(DatumGetInt64(spi_value(i, 1))); // never more than there were
    }
    SPI_finish();
    return removed;
}

} // namespace

void
PgDeliveries::add_waiting(const Event &event, Lane lane)
{
    from_postgres<NotWritten>(
        [&]
        {
            Oid types[kAddColumns];
            Datum values[kAddColumns];
            spi_connect();
            set_event(event, lane, types, values);
            static SPIPlanPtr plan = nullptr;
            spi_execute_kept(&plan, kAddWaiting, kAddColumns, types, values, SPI_OK_INSERT);
            if (SPI_processed == 0 && displace_other(event))
                spi_execute_kept(&plan, kAddWaiting, kAddColumns, types, values, SPI_OK_INSERT);
            SPI_finish();
        });
}

Written
PgDeliveries::add_refused(const Event &event, Lane lane, const RefusalNote &note)
{
    Written result = Written::kept;
    from_postgres<NotWritten>(
        [&]
        {
            if (is_free(event.numbers.seq))
                result = write_refusal(event, lane, note);
            else
            {
                spi_connect();
                (void) displace_other(event); // it is held, so that is an error
                SPI_finish();
            }
        });
    return result;
}

std::size_t
PgDeliveries::remove_delivered(std::vector<std::int64_t> &seqs)
{
    std::size_t removed = 0;
    from_postgres<NotWritten>(
        [&]
        {
            if (lock_table("relay_position", RowExclusiveLock) == OpenResult::opened)
                removed = remove_rows(seqs);
        });
    return removed;
}

void
PgDeliveries::count_published(std::size_t count)
{
    from_postgres<NotWritten>([&] { add_published(static_cast<int64>(count)); });
}

} // namespace outbox
