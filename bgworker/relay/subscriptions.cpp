// What the relay of `default` does for the other subscriptions of its database, as only a process
// that is connected to it can read which there are; and the end of one whose destination is gone.

#include "relay.h"

#include "bgworker/guard.h"
#include "bgworker/source/relation_lock.h"
#include "bgworker/source/short_transaction.h"
#include "bgworker/source/spi_call.h"
#include "bgworker/source/subscription.h"

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

// A person may have paused it, and is not forgotten. Returns whether it is written: a session may
// hold the table.
bool
pause_for_good(const char *reason)
{
    constexpr const char *kPause = "with known as (update outbox.pauses p set gone = $2 where "
                                   "p.subscription = $1 returning 1) "
                                   "insert into outbox.pauses (subscription, gone, reason) "
                                   "select $1, $2, 'the destination asks never to be called again' "
                                   "where not exists (select from known)";
    begin_transaction();
    const bool free = lock_with_indexes("pauses", ShareRowExclusiveLock);
    if (free)
    {
        Oid types[] = {TEXTOID, TEXTOID};
        Datum values[] = {subscription_datum(), CStringGetTextDatum(reason)};
        spi_connect();
        spi_execute(kPause, 2, types, values, SPI_OK_INSERT);
        SPI_finish();
    }
    end_transaction();
    return free;
}

} // namespace

void
stop_for_destination(const Failure &why)
{
    static bool written;
    static char reason[512];
    relay.parts->destination.disable();
    snprintf(reason, sizeof(reason), "%s: %s", why.name, why.text);
    written = false;
    call_cpp(
        []
        {
            (void) relay.parts->pausing.run(
                [] { from_postgres([] { written = pause_for_good(reason); }); });
        });
    relay.restart = relay.restart || written;
}

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
