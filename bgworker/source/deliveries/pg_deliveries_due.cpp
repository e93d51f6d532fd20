// What is to be tried again, and when: rows whose pause is over, and what waits behind them.

#include "bgworker/guard.h"

#include "pg_deliveries.h"

#include "delivery_values.h"

#include "bgworker/source/spi_call.h"
#include "bgworker/source/subscription.h"

#include "extension/server/text_view.h"

namespace outbox
{

namespace
{

// Of what blocks a lane only the first is tried: the others would go out before it, and use up its
// attempts.
#define BEHIND_ANOTHER                                                                             \
    "(d.blocking and exists (select from outbox.deliveries f "                                     \
    " where f.subscription = d.subscription and f.lane = d.lane "                                  \
    " and f.blocking and f.seq < d.seq and (f.state = 'RETRYING' or f.state = 'FAILED'))) "

constexpr const char *kDue =
    "select " DELIVERY_ROW "from outbox.deliveries d "
    "where d.subscription = $5 and d.state = 'RETRYING' and d.next_attempt_at <= $1 "
    "and d.seq <> all ($2) "
    "and (not d.blocking or d.lane <> all ($3)) and not " BEHIND_ANOTHER
    "order by d.next_attempt_at, d.seq limit $4 for no key update skip locked";

constexpr const char *kNextDueAt =
    "select d.next_attempt_at from outbox.deliveries d "
    "where d.subscription = $3 and d.state = 'RETRYING' and d.seq <> all ($1) "
    "and (not d.blocking or d.lane <> all ($2)) and not " BEHIND_ANOTHER
    "order by d.next_attempt_at limit 1";

// What belongs in a line before the event that is due in it.
constexpr const char *kFirstBefore =
    "select " DELIVERY_ROW "from outbox.deliveries d "
    "where d.subscription = $4 and d.lane = $1 and d.seq < $2 and d.seq <> all ($3) "
    "and (d.state = 'WAITING' or d.blocking and d.state = 'RETRYING') order by d.seq limit 1";

constexpr const char *kWaiting = "select " DELIVERY_ROW "from outbox.deliveries d "
                                 "where d.subscription = $5 and d.state = 'WAITING' and d.lane = "
                                 "$1 and d.seq > $2 and d.seq <> all ($4) order by d.seq limit $3";

// Those that are refused with their topic or partition: their lane is not their key's.
constexpr const char *kHeadsOfTopic =
    "select d.seq, d.lane, d.partition_key from outbox.deliveries d "
    "where d.subscription = $3 and d.state = 'RETRYING' and d.blocking and d.topic = $1 "
    "and d.next_attempt_at > $2 "
    "order by d.next_attempt_at limit 1000";

constexpr const char *kMakeDue =
    "update outbox.deliveries d set next_attempt_at = $2 "
    "where d.seq = any ($1) and d.subscription = $3 and d.state = 'RETRYING'";

void
select_heads_of_topic(std::string_view topic, TimestampTz now)
{
    Oid types[] = {TEXTOID, TIMESTAMPTZOID, TEXTOID};
    Datum values[] = {text_datum(topic), TimestampTzGetDatum(now), subscription_datum()};
    spi_execute(kHeadsOfTopic, 3, types, values, SPI_OK_SELECT);
}

void
make_due(std::string_view topic, TimestampTz now)
{
    spi_connect();
    select_heads_of_topic(topic, now);
    const uint64 found = SPI_processed;
    int64 *seqs = static_cast<int64 *>(palloc(sizeof(int64) * (found + 1)));
    size_t count = 0;
    for (uint64 i = 0; i < found; i++)
    {
        const Lane lane = static_cast<Lane>(DatumGetInt64(spi_value(i, 2)));
        if (lane != key_lane(topic, text_view(DatumGetTextPP(spi_value(i, 3)))))
            seqs[count++] = DatumGetInt64(spi_value(i, 1));
    }
    if (count > 0)
    {
        Oid types[] = {INT8ARRAYOID, TIMESTAMPTZOID, TEXTOID};
        Datum values[] = {PointerGetDatum(int8_array(seqs, count)), TimestampTzGetDatum(now),
                          subscription_datum()};
        spi_execute(kMakeDue, 3, types, values, SPI_OK_UPDATE);
    }
    SPI_finish();
}

} // namespace

void
PgDeliveries::due(Time now, const std::vector<std::int64_t> &left_out,
                  const std::vector<Lane> &lanes_left_out, int count,
                  std::vector<DeliveryRow> &rows)
{
    from_postgres(
        [&]
        {
            Oid types[] = {TIMESTAMPTZOID, INT8ARRAYOID, INT8ARRAYOID, INT8OID, TEXTOID};
            Datum values[] = {
                TimestampTzGetDatum(now),
                PointerGetDatum(int8_array(left_out.data(), left_out.size())),
                PointerGetDatum(int8_array(lanes_left_out.data(), lanes_left_out.size())),
                Int64GetDatum(static_cast<int64>(count)), subscription_datum()};
            spi_connect();
            spi_execute(kDue, 5, types, values, SPI_OK_SELECT);
            read_rows(rows);
            SPI_finish();
        });
}

Time
PgDeliveries::next_due_at(const std::vector<std::int64_t> &left_out,
                          const std::vector<Lane> &lanes_left_out)
{
    Time at = 0;
    from_postgres(
        [&]
        {
            Oid types[] = {INT8ARRAYOID, INT8ARRAYOID, TEXTOID};
            Datum values[] = {
                PointerGetDatum(int8_array(left_out.data(), left_out.size())),
                PointerGetDatum(int8_array(lanes_left_out.data(), lanes_left_out.size())),
                subscription_datum()};
            spi_connect();
            spi_execute(kNextDueAt, 3, types, values, SPI_OK_SELECT);
            if (SPI_processed == 1)
                at = DatumGetTimestampTz(spi_first(1));
            SPI_finish();
        });
    return at;
}

bool
PgDeliveries::first_before(Lane lane, std::int64_t seq, const std::vector<std::int64_t> &left_out,
                           DeliveryRow &row)
{
    bool found = false;
    from_postgres(
        [&]
        {
            Oid types[] = {INT8OID, INT8OID, INT8ARRAYOID, TEXTOID};
            Datum values[] = {Int64GetDatum(static_cast<int64>(lane)), Int64GetDatum(seq),
                              PointerGetDatum(int8_array(left_out.data(), left_out.size())),
                              subscription_datum()};
            spi_connect();
            spi_execute(kFirstBefore, 4, types, values, SPI_OK_SELECT);
            found = SPI_processed == 1;
            if (found)
                read_row(0, row);
            SPI_finish();
        });
    return found;
}

void
PgDeliveries::waiting_of(Lane lane, std::int64_t after, const std::vector<std::int64_t> &left_out,
                         int count, std::vector<DeliveryRow> &rows)
{
    from_postgres(
        [&]
        {
            Oid types[] = {INT8OID, INT8OID, INT8OID, INT8ARRAYOID, TEXTOID};
            Datum values[] = {Int64GetDatum(static_cast<int64>(lane)), Int64GetDatum(after),
                              Int64GetDatum(static_cast<int64>(count)),
                              PointerGetDatum(int8_array(left_out.data(), left_out.size())),
                              subscription_datum()};
            spi_connect();
            spi_execute(kWaiting, 5, types, values, SPI_OK_SELECT);
            read_rows(rows);
            SPI_finish();
        });
}

void
PgDeliveries::make_heads_due(std::string_view topic, Time now)
{
    from_postgres<NotWritten>([&] { make_due(topic, now); });
}

} // namespace outbox
