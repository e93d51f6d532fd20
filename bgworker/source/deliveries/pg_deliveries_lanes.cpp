// What the table outbox.deliveries says of lanes, and as a whole.

#include "bgworker/guard.h"

#include "pg_deliveries.h"

#include "same_number.h"

#include "bgworker/source/spi_call.h"
#include "bgworker/source/subscription.h"

namespace outbox
{

namespace
{

constexpr const char *kHasRow = "select from outbox.deliveries d "
                                "where d.seq = $1 and d.event_id = $2 and d.subscription = $3";

constexpr const char *kHasBehind =
    "select from outbox.deliveries d "
    "where d.subscription = $3 and d.lane = $1 and d.seq > $2 "
    "and (d.state = 'WAITING' "
    " or d.blocking and (d.state = 'RETRYING' or d.state = 'FAILED')) limit 1";

constexpr const char *kLastSeq =
    "select d.seq from outbox.deliveries d order by d.seq desc limit 1";

constexpr const char *kIsBlocked =
    "select from outbox.deliveries d where d.subscription = $2 and d.lane = $1 and d.blocking "
    "and (d.state = 'RETRYING' or d.state = 'FAILED') limit 1";

constexpr const char *kBlocked =
    "select distinct d.lane from outbox.deliveries d "
    "where d.subscription = $1 and d.blocking and (d.state = 'RETRYING' or d.state = 'FAILED')";

// One look into the index for each lane, however many events wait in it. That is for few lanes: of
// many it would take longer than to read all rows.
constexpr int kFewLanes = 1000;
constexpr const char *kFewWaitingLanes =
    "with recursive lanes (lane) as ("
    " (select d.lane from outbox.deliveries d where d.subscription = $1 and d.state = 'WAITING' "
    "  order by d.lane limit 1)"
    " union all"
    " select (select d.lane from outbox.deliveries d where d.subscription = $1 "
    "         and d.state = 'WAITING' and d.lane > l.lane order by d.lane limit 1)"
    " from lanes l where l.lane is not null)"
    "select l.lane from lanes l where l.lane is not null limit $2";
constexpr const char *kOtherWaitingLanes = "select distinct d.lane from outbox.deliveries d "
                                           "where d.subscription = $1 and d.state = 'WAITING' "
                                           "and d.lane > $2";

void
select_lanes(const char *statement, const int64 *parameter, std::vector<Lane> &lanes)
{
    Oid types[] = {TEXTOID, INT8OID};
    Datum values[] = {subscription_datum(), Int64GetDatum(parameter != nullptr ? *parameter : 0)};
    spi_connect();
    spi_execute(statement, parameter != nullptr ? 2 : 1, types, values, SPI_OK_SELECT);
    for (uint64 i = 0; i < SPI_processed; i++)
    {
        const Lane lane = static_cast<Lane>(DatumGetInt64(spi_value(i, 1)));
        call_cpp([&] { lanes.push_back(lane); });
    }
    SPI_finish();
}

// The number that a statement gives, or the lowest one when it gives none.
int64
select_seq(const char *statement)
{
    spi_connect();
    spi_execute(statement, 0, nullptr, nullptr, SPI_OK_SELECT);
    const int64 seq = SPI_processed == 0 ? PG_INT64_MIN : DatumGetInt64(spi_first(1));
    SPI_finish();
    return seq;
}

} // namespace

std::int64_t
PgDeliveries::last_seq()
{
    std::int64_t seq = 0;
    from_postgres([&] { seq = select_seq(kLastSeq); });
    return seq;
}

bool
PgDeliveries::is_lane_blocked(Lane lane)
{
    bool blocked = false;
    from_postgres(
        [&]
        {
            Oid types[] = {INT8OID, TEXTOID};
            Datum values[] = {Int64GetDatum(static_cast<int64>(lane)), subscription_datum()};
            spi_connect();
            spi_execute(kIsBlocked, 2, types, values, SPI_OK_SELECT);
            blocked = SPI_processed > 0;
            SPI_finish();
        });
    return blocked;
}

bool
PgDeliveries::has_row(const Event &event)
{
    bool found = false;
    from_postgres(
        [&]
        {
            Oid types[] = {INT8OID, UUIDOID, TEXTOID};
            Datum values[] = {Int64GetDatum(event.numbers.seq), uuid_datum(event),
                              subscription_datum()};
            spi_connect();
            static SPIPlanPtr plan = nullptr;
            spi_execute_kept(&plan, kHasRow, 3, types, values, SPI_OK_SELECT);
            found = SPI_processed > 0;
            SPI_finish();
        });
    return found;
}

bool
PgDeliveries::has_behind(Lane lane, std::int64_t seq)
{
    bool found = false;
    from_postgres(
        [&]
        {
            Oid types[] = {INT8OID, INT8OID, TEXTOID};
            Datum values[] = {Int64GetDatum(static_cast<int64>(lane)), Int64GetDatum(seq),
                              subscription_datum()};
            spi_connect();
            static SPIPlanPtr plan = nullptr;
            spi_execute_kept(&plan, kHasBehind, 3, types, values, SPI_OK_SELECT);
            found = SPI_processed > 0;
            SPI_finish();
        });
    return found;
}

void
PgDeliveries::blocked_lanes(std::vector<Lane> &lanes)
{
    from_postgres([&] { select_lanes(kBlocked, nullptr, lanes); });
}

void
PgDeliveries::waiting_lanes(std::vector<Lane> &lanes)
{
    from_postgres(
        [&]
        {
            const size_t before = lanes.size();
            const int64 few = kFewLanes;
            select_lanes(kFewWaitingLanes, &few, lanes);
            if (lanes.size() - before < static_cast<size_t>(kFewLanes))
                return;
            const int64 last = static_cast<int64>(lanes.back());
            select_lanes(kOtherWaitingLanes, &last, lanes);
        });
}

bool
PgDeliveries::is_paused()
{
    bool paused = false;
    from_postgres(
        [&]
        {
            Oid types[] = {TEXTOID};
            Datum values[] = {subscription_datum()};
            spi_connect();
            spi_execute("select p.gone from outbox.pauses p where p.subscription = $1 "
                        "order by p.gone limit 1",
                        1, types, values, SPI_OK_SELECT);
            paused = SPI_processed > 0;
            bool is_null = true;
            if (paused)
                (void) spi_first(1, &is_null);
            if (!is_null)
                strlcpy(gone_, spi_first_text(1), sizeof(gone_));
            may_start_again_ = is_null && gone_[0] != '\0';
            SPI_finish();
        });
    return paused || gone_[0] != '\0';
}

} // namespace outbox
