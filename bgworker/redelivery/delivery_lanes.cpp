// What the table outbox.deliveries says of lanes, and as a whole.

#include "delivery_store.h"

#include "bgworker/guard.h"
#include "bgworker/spi_call.h"

namespace outbox
{

namespace
{

constexpr const char *kSettled =
    "select d.seq from outbox.deliveries d where d.seq operator(pg_catalog.=) $1 "
    "and not d.blocking and d.state operator(pg_catalog.<>) 'WAITING'";

constexpr const char *kLastSettled =
    "select d.seq from outbox.deliveries d where not d.blocking "
    "and d.state operator(pg_catalog.<>) 'WAITING' order by d.seq desc limit 1";

constexpr const char *kLastSeq =
    "select d.seq from outbox.deliveries d order by d.seq desc limit 1";

constexpr const char *kIsBlocked =
    "select from outbox.deliveries d where d.lane operator(pg_catalog.=) $1 and d.blocking "
    "and (d.state operator(pg_catalog.=) 'RETRYING' or d.state operator(pg_catalog.=) 'FAILED') "
    "limit 1";

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

int64
last_seq()
{
    spi_connect();
    spi_execute(kLastSeq, 0, nullptr, nullptr, SPI_OK_SELECT);
    bool is_null;
    const int64 seq = SPI_processed == 0
                          ? PG_INT64_MIN
                          : DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0],
                                                        SPI_tuptable->tupdesc, 1, &is_null));
    SPI_finish();
    return seq;
}

bool
is_lane_blocked(Lane lane)
{
    Oid types[] = {INT8OID};
    Datum values[] = {Int64GetDatum(static_cast<int64>(lane))};
    spi_connect();
    spi_execute(kIsBlocked, 1, types, values, SPI_OK_SELECT);
    const bool blocked = SPI_processed > 0;
    SPI_finish();
    return blocked;
}

bool
has_settled_row(int64 seq)
{
    Oid types[] = {INT8OID};
    Datum values[] = {Int64GetDatum(seq)};
    spi_connect();
    static SPIPlanPtr plan = nullptr;
    spi_execute_kept(&plan, kSettled, 1, types, values, SPI_OK_SELECT);
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
