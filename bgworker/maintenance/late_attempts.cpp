#include "late_attempts.h"

#include "bgworker/relation_lock.h"
#include "bgworker/short_transaction.h"
#include "bgworker/spi_call.h"

#include "extension/settings.h"

namespace outbox
{

namespace
{

// Rows that a person holds come later.
constexpr const char *kMakeDue =
    "with late as (select d.seq from outbox.deliveries d "
    " where d.state operator(pg_catalog.=) 'RETRYING' "
    " and d.next_attempt_at operator(pg_catalog.>) $1 "
    " order by d.next_attempt_at limit 10000 for no key update skip locked) "
    "update outbox.deliveries d set next_attempt_at = pg_catalog.clock_timestamp() from late l "
    "where d.seq operator(pg_catalog.=) l.seq";

// A clock that is a little ahead is none of it.
constexpr int kMinuteMs = 60 * 1000;

} // namespace

bool
make_late_attempts_due()
{
    bool any = false;
    begin_transaction();
    if (OidIsValid(get_extension_oid("outbox", true)) &&
        lock_with_indexes("deliveries", RowExclusiveLock))
    {
        Oid types[] = {TIMESTAMPTZOID};
        const TimestampTz latest =
            TimestampTzPlusMilliseconds(GetCurrentTimestamp(), settings.backoff_max_ms + kMinuteMs);
        Datum values[] = {TimestampTzGetDatum(latest)};
        spi_connect();
        static SPIPlanPtr plan = nullptr;
        spi_execute_kept(&plan, kMakeDue, 1, types, values, SPI_OK_UPDATE);
        any = SPI_processed > 0;
        SPI_finish();
    }
    end_transaction();
    return any;
}

} // namespace outbox
