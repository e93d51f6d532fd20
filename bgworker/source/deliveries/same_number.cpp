#include "same_number.h"

#include "bgworker/source/spi_call.h"
#include "bgworker/source/subscription.h"

namespace outbox
{

namespace
{

constexpr const char *kOther = "select d.event_id, d.state = 'DISCARDED' from outbox.deliveries d "
                               "where d.seq = $1 and d.event_id <> $2 and d.subscription = $3";

// A row that another transaction has locked stays.
constexpr const char *kRemoveDiscarded =
    "with free as materialized (select d.seq from outbox.deliveries d "
    " where d.seq = $1 and d.event_id <> $2 and d.subscription = $3 and d.state = 'DISCARDED' "
    " for update skip locked) "
    "delete from outbox.deliveries d using free f where d.seq = f.seq and d.subscription = $3";

void
refuse_number(const Event &event, Datum other)
{
    char id[kUuidText];
    write_uuid(event.id, id);
    ereport(ERROR,
            (errcode(ERRCODE_UNIQUE_VIOLATION),
             errmsg("outbox: event %s cannot be set aside: event %s in outbox.deliveries has the "
                    "same number",
                    id, DatumGetCString(DirectFunctionCall1(uuid_out, other))),
             errdetail("The number is %lld; outbox.events_seq was set back. Nothing new is "
                       "published until that row is gone.",
                       static_cast<long long>(event.numbers.seq)),
             errhint("Settle the other event, with outbox.discard() if it is not published.")));
}

} // namespace

Datum
uuid_datum(const Event &event)
{
    pg_uuid_t *id = static_cast<pg_uuid_t *>(palloc(sizeof(pg_uuid_t)));
    memcpy(id->data, event.id.data(), UUID_LEN);
    return UUIDPGetDatum(id);
}

bool
displace_other(const Event &event)
{
    Oid types[] = {INT8OID, UUIDOID, TEXTOID};
    Datum values[] = {Int64GetDatum(event.numbers.seq), uuid_datum(event), subscription_datum()};
    spi_execute(kOther, 3, types, values, SPI_OK_SELECT);
    if (SPI_processed == 0)
        return false;
    const Datum other = spi_first(1);
    if (DatumGetBool(spi_first(2)))
    {
        spi_execute(kRemoveDiscarded, 3, types, values, SPI_OK_DELETE);
        if (SPI_processed > 0)
            return true;
    }
    refuse_number(event, other);
    return false;
}

} // namespace outbox
