#include "numbers.h"

#include "bgworker/source/relation_lock.h"
#include "bgworker/source/spi_call.h"

#include "extension/emit/event_numbers.h"

namespace outbox
{

void
learn_number(int64 seq)
{
    // Without the sequence, who emits says so.
    if (seq > 0 && OidIsValid(find_own_relation("events_seq")))
        record_numbers_to(seq);
}

void
learn_numbers(int64 last_seq)
{
    learn_number(last_seq);
    spi_connect();
    spi_execute("select coalesce(max(d.seq), 0) from outbox.deliveries d", 0, nullptr, nullptr,
                SPI_OK_SELECT);
    learn_number(DatumGetInt64(spi_first(1)));
    SPI_finish();
}

void
check_numbers()
{
    if (lock_if_free("events_seq", RowExclusiveLock))
        check_sequence();
}

} // namespace outbox
