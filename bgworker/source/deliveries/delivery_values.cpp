#include "bgworker/guard.h"

#include "delivery_values.h"

#include "bgworker/source/spi_call.h"

namespace outbox
{

namespace
{

constexpr const char *kExists = "select from outbox.deliveries d where d.seq = $1";

constexpr const char *kLock =
    "select from outbox.deliveries d where d.seq = $1 for no key update skip locked";

} // namespace

void
read_row(uint64 number, DeliveryRow &row)
{
    HeapTuple tuple = SPI_tuptable->vals[number];
    TupleDesc desc = SPI_tuptable->tupdesc;
    bool is_null;
    row.numbers.seq = DatumGetInt64(SPI_getbinval(tuple, desc, 1, &is_null));
    row.numbers.xid = DatumGetInt64(SPI_getbinval(tuple, desc, 2, &is_null));
    row.numbers.slot = DatumGetInt16(SPI_getbinval(tuple, desc, 3, &is_null));
    row.lane = static_cast<Lane>(DatumGetInt64(SPI_getbinval(tuple, desc, 4, &is_null)));
    row.attempts = DatumGetInt32(SPI_getbinval(tuple, desc, 5, &is_null));
    row.waiting = DatumGetBool(SPI_getbinval(tuple, desc, 6, &is_null));
    row.blocking = DatumGetBool(SPI_getbinval(tuple, desc, 7, &is_null));
}

void
read_rows(std::vector<DeliveryRow> &rows)
{
    const size_t before = rows.size();
    call_cpp([&] { rows.resize(before + SPI_processed); });
    for (uint64 i = 0; i < SPI_processed; i++)
        read_row(i, rows[before + i]);
}

bool
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

} // namespace outbox
