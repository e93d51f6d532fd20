// Keeps a relay alive for each subscription that the relay of its database's `default` has asked
// for.

#include "watch.h"

#include "extension/shared/subscription_slots.h"

namespace outbox
{

namespace
{

// The database whose subscription it is; null when that wants no relay any more.
Watch *
home_of(const RelayWatch &watch)
{
    DatabaseSlot *slot = find_slot(watch.database);
    if (slot == nullptr)
        return nullptr;
    Watch *home = &watches[slot - shared_state()->slots];
    return home->database == watch.database && home->seen && home->wanted ? home : nullptr;
}

void
forget(RelayWatch &watch, SubscriptionSlot &subscription)
{
    free_subscription(find_slot(watch.database), subscription);
    watch = {};
}

long
turn(RelayWatch &watch, SubscriptionSlot &subscription, int &starting)
{
    const Oid database = pg_atomic_read_u32(&subscription.database);
    if (!OidIsValid(database))
        return kTurnMs;
    if (watch.database != database)
    {
        watch = {};
        watch.database = database;
        watch.entry = &subscription.relay;
        watch.wanted = true;
    }
    check_worker(watch);
    if (!watch.wanted) // it has looked, and there is no such subscription
        pg_atomic_write_u32(&subscription.wanted, 0);
    Watch *home = home_of(watch);
    if (home == nullptr || pg_atomic_read_u32(&subscription.wanted) == 0)
    {
        if (is_running(watch))
            end_relay(&subscription.relay);
        else
            forget(watch, subscription);
        return kBusyTurnMs;
    }
    if (pg_atomic_read_u32(&slot_of(*home).held_by) != 0)
        return kBusyTurnMs;
    if (is_running(watch))
        return kTurnMs;
    // Of a relay that runs it is not known yet whether it has seen what was asked for.
    if (pg_atomic_exchange_u32(&subscription.relay.asked_for, 0) != 0)
        watch.start_after = 0;
    const long wait = ms_to_start(watch);
    if (wait > 0 || starting >= kMaxStarting)
        return Max(wait, kBusyTurnMs);
    const int number = static_cast<int>(&watch - subscription_watches);
    start_relay(watch, kMaxDatabases + number, home->name);
    starting++;
    return kTurnMs;
}

} // namespace

long
turn_subscriptions(int starting)
{
    long sleep_ms = kTurnMs;
    for (int i = 0; i < kMaxAllSubscriptions; i++)
        sleep_ms = Min(sleep_ms,
                       turn(subscription_watches[i], shared_state()->subscriptions[i], starting));
    return sleep_ms;
}

} // namespace outbox
