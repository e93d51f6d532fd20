// Rows of outbox.deliveries move to another lane or topic, as routes change.

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

constexpr const char *kMove =
    "update outbox.deliveries d "
    "set lane = $2, state = 'WAITING', blocking = false, next_attempt_at = null "
    "where d.seq = $1 and d.subscription = $3 and (d.state = 'WAITING' or d.state = 'RETRYING')";

constexpr const char *kRename =
    "update outbox.deliveries d set lane = $2 "
    "where d.seq = $1 and d.subscription = $3 and d.state <> 'DISCARDED'";

constexpr const char *kMoveTopic =
    "update outbox.deliveries d set lane = $2, topic = $3, "
    "state = case when d.state = 'RETRYING' and d.blocking then 'WAITING' else d.state end, "
    "blocking = d.blocking and d.state = 'FAILED', "
    "attempts = case when d.state = 'FAILED' then d.attempts else 0 end, "
    "next_attempt_at = "
    " case when d.state = 'RETRYING' and not d.blocking then clock_timestamp() end "
    "where d.seq = $1 and d.subscription = $4";

#define MOVED_ROWS                                                                                 \
    "select d.seq, d.xid, d.slot, d.topic, d.lane, "                                               \
    "d.state = 'WAITING' or (d.state = 'RETRYING' and d.blocking) "                                \
    "from outbox.deliveries d where d.subscription = $3 and d.state <> 'DISCARDED' and "

constexpr const char *kBehind = MOVED_ROWS "d.seq > $1 order by d.seq limit $2";

// By the hash of the index deliveries_keys, as a key may be larger than what an index takes. Those
// of other keys with this hash come along: were they left out, anybody could have it read many in
// vain. Asked for one hash by "=", the planner may go through all rows by seq, up to the first; in
// the order of the index it has nothing else.
#define HASH(key) "pg_catalog.hashtextextended(" key ", 0)"
constexpr const char *kOfKey =
    MOVED_ROWS "(" HASH("d.partition_key") ", d.seq) > (" HASH("$4") ", $1) and " HASH(
        "d.partition_key") " <= " HASH("$4") " order by " HASH("d.partition_key") ", d.seq limit "
                                                                                  "$2";

void
select_moved(const char *statement, std::int64_t after, int count, const std::string_view *key,
             std::vector<MovedRow> &rows)
{
    Oid types[] = {INT8OID, INT8OID, TEXTOID, TEXTOID};
    Datum values[] = {Int64GetDatum(after), Int64GetDatum(static_cast<int64>(count)),
                      subscription_datum(), 0};
    if (key != nullptr)
        values[3] = text_datum(*key);
    spi_connect();
    spi_execute(statement, key != nullptr ? 4 : 3, types, values, SPI_OK_SELECT);
    for (uint64 i = 0; i < SPI_processed; i++)
    {
        const auto field = [i](int column) { return spi_value(i, column); };
        const EventNumbers numbers = {DatumGetInt64(field(1)), DatumGetInt64(field(2)),
                                      DatumGetInt16(field(3))};
        const std::string_view topic = text_view(DatumGetTextPP(field(4)));
        const Lane lane = static_cast<Lane>(DatumGetInt64(field(5)));
        const bool in_line = DatumGetBool(field(6));
        call_cpp([&] { rows.push_back({numbers, std::string(topic), lane, in_line}); });
    }
    SPI_finish();
}

bool
set_lane(SPIPlanPtr *plan, const char *statement, int64 seq, Lane lane)
{
    if (!is_free(seq))
        return false;
    Oid types[] = {INT8OID, INT8OID, TEXTOID};
    Datum values[] = {Int64GetDatum(seq), Int64GetDatum(static_cast<int64>(lane)),
                      subscription_datum()};
    spi_connect();
    spi_execute_kept(plan, statement, 3, types, values, SPI_OK_UPDATE);
    SPI_finish();
    return true;
}

} // namespace

bool
PgDeliveries::move_to_lane(std::int64_t seq, Lane lane)
{
    static SPIPlanPtr plan = nullptr;
    bool moved = false;
    from_postgres<NotWritten>([&] { moved = set_lane(&plan, kMove, seq, lane); });
    return moved;
}

bool
PgDeliveries::rename_lane(std::int64_t seq, Lane lane)
{
    static SPIPlanPtr plan = nullptr;
    bool renamed = false;
    from_postgres<NotWritten>([&] { renamed = set_lane(&plan, kRename, seq, lane); });
    return renamed;
}

void
PgDeliveries::rows_behind(std::int64_t after, int count, std::vector<MovedRow> &rows)
{
    from_postgres([&] { select_moved(kBehind, after, count, nullptr, rows); });
}

void
PgDeliveries::rows_of_key(std::string_view key, std::int64_t after, int count,
                          std::vector<MovedRow> &rows)
{
    from_postgres([&] { select_moved(kOfKey, after, count, &key, rows); });
}

bool
PgDeliveries::move_to_topic(std::int64_t seq, std::string_view topic, Lane lane)
{
    bool moved = false;
    from_postgres<NotWritten>(
        [&]
        {
            moved = is_free(seq);
            if (!moved)
                return;
            Oid types[] = {INT8OID, INT8OID, TEXTOID, TEXTOID};
            Datum values[] = {Int64GetDatum(seq), Int64GetDatum(static_cast<int64>(lane)),
                              text_datum(topic), subscription_datum()};
            spi_connect();
            static SPIPlanPtr plan = nullptr;
            spi_execute_kept(&plan, kMoveTopic, 4, types, values, SPI_OK_UPDATE);
            SPI_finish();
        });
    return moved;
}

} // namespace outbox
