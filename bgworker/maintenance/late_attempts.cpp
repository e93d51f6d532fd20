#include "late_attempts.h"

#include "bgworker/source/relation_lock.h"
#include "bgworker/source/short_transaction.h"
#include "bgworker/source/spi_call.h"
#include "bgworker/source/subscription.h"

#include "extension/shared/settings.h"

namespace outbox
{

namespace
{

// Rows that an operator's transaction holds come later.
constexpr const char *kMakeDue =
    "with late as (select d.seq from outbox.deliveries d "
    " where d.subscription = $2 and d.state = 'RETRYING' and d.next_attempt_at > $1 "
    " order by d.next_attempt_at limit 10000 for no key update skip locked) "
    "update outbox.deliveries d set next_attempt_at = clock_timestamp() from late l "
    "where d.seq = l.seq and d.subscription = $2";

// A clock may be a little ahead.
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
        Oid types[] = {TIMESTAMPTZOID, TEXTOID};
        const TimestampTz latest =
            TimestampTzPlusMilliseconds(GetCurrentTimestamp(), settings.backoff_max_ms + kMinuteMs);
        Datum values[] = {TimestampTzGetDatum(latest), subscription_datum()};
        spi_connect();
        static SPIPlanPtr plan = nullptr;
        spi_execute_kept(&plan, kMakeDue, 2, types, values, SPI_OK_UPDATE);
        any = SPI_processed > 0;
        SPI_finish();
    }
    end_transaction();
    return any;
}

} // namespace outbox
