// What the relay of `default` does for the other subscriptions of its database: only a process that
// is connected to it can read which there are.

#include "relay.h"

#include "bgworker/source/spi_call.h"

#include "extension/shared/subscription_slots.h"

namespace outbox
{

namespace
{

bool
is_listed(const char *name)
{
    for (uint64 i = 0; i < SPI_processed; i++)
        if (strcmp(SPI_getvalue(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1), name) == 0)
            return true;
    return false;
}

void
warn_of_no_place(const char *name)
{
    static bool told = false;
    if (!told)
        ereport(WARNING,
                (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
                 errmsg("outbox: there is no place for subscription \"%s\"", name),
                 errdetail("A database can have %d besides the default one, all databases %d.",
                           kMaxSubscriptions, kMaxAllSubscriptions),
                 errhint("Drop one that is not needed with outbox.drop_subscription().")));
    told = true;
}

} // namespace

void
claim_subscriptions()
{
    bool any = false;
    spi_connect();
    static SPIPlanPtr plan = nullptr;
    spi_execute_kept(&plan,
                     "select s.name from outbox.subscriptions s "
                     "where s.detached_at is null order by s.created_at",
                     0, nullptr, nullptr, SPI_OK_SELECT);
    for (uint64 i = 0; i < SPI_processed; i++)
    {
        const char *name = SPI_getvalue(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1);
        any = true;
        if (claim_subscription(*relay.slot, name) == nullptr)
            warn_of_no_place(name);
    }
    for_each_subscription(*relay.slot,
                          [&](SubscriptionSlot &subscription)
                          {
                              any = true;
                              if (!is_listed(subscription.name))
                                  pg_atomic_write_u32(&subscription.wanted, 0);
                          });
    SPI_finish();
    if (any)
        wake_launcher();
}

} // namespace outbox
