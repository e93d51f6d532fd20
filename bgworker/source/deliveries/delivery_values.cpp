#include "bgworker/guard.h"

#include "delivery_values.h"

#include "bgworker/source/spi_call.h"
#include "bgworker/source/subscription.h"

namespace outbox
{

namespace
{

constexpr const char *kExists =
    "select from outbox.deliveries d where d.seq = $1 and d.subscription = $2";

constexpr const char *kLock =
    "select from outbox.deliveries d where d.seq = $1 and d.subscription = $2 "
    "for no key update skip locked";

} // namespace

void
read_row(uint64 number, DeliveryRow &row)
{
    row.numbers.seq = DatumGetInt64(spi_value(number, 1));
    row.numbers.xid = DatumGetInt64(spi_value(number, 2));
    row.numbers.slot = DatumGetInt16(spi_value(number, 3));
    row.lane = static_cast<Lane>(DatumGetInt64(spi_value(number, 4)));
    row.attempts = DatumGetInt32(spi_value(number, 5));
    row.waiting = DatumGetBool(spi_value(number, 6));
    row.blocking = DatumGetBool(spi_value(number, 7));
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
    Oid types[] = {INT8OID, TEXTOID};
    Datum values[] = {Int64GetDatum(seq), subscription_datum()};
    spi_connect();
    static SPIPlanPtr exists = nullptr;
    spi_execute_kept(&exists, kExists, 2, types, values, SPI_OK_SELECT);
    bool free = SPI_processed == 0;
    if (!free)
    {
        static SPIPlanPtr lock = nullptr;
        spi_execute_kept(&lock, kLock, 2, types, values, SPI_OK_SELECT);
        free = SPI_processed > 0;
    }
    SPI_finish();
    return free;
}

} // namespace outbox
