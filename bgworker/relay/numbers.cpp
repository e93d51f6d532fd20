#include "numbers.h"

#include "bgworker/relation_lock.h"
#include "bgworker/spi_call.h"

#include "extension/event_numbers.h"

namespace outbox
{

namespace
{

constexpr const char *kSelect =
    "select case when s.is_called then s.last_value else s.last_value operator(pg_catalog.-) 1 "
    "end, "
    "coalesce((select pg_catalog.max(d.seq) from outbox.deliveries d), 0) from outbox.events_seq s";

int64
number(int column)
{
    bool is_null;
    return DatumGetInt64(
        SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, column, &is_null));
}

} // namespace

void
learn_numbers(int64 last_seq)
{
    if (!lock_if_free("events_seq", AccessShareLock))
        return;
    spi_connect();
    spi_execute(kSelect, 0, nullptr, nullptr, SPI_OK_SELECT);
    const int64 last_value = number(1);
    const int64 largest = Max(last_seq, number(2));
    SPI_finish();
    require_numbers_after(Max(last_value, largest));
    if (last_value < largest && lock_if_free("events_seq", RowExclusiveLock))
        (void) next_seq(); // says so
}

} // namespace outbox
