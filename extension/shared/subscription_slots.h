// The places of subscriptions in shared memory, see SubscriptionSlot.
#pragma once

#include "shared_state.h"

namespace outbox
{

// Calls f(SubscriptionSlot &) for each of the database's. No lock, no error: in a commit callback.
template <typename F>
void
for_each_subscription(DatabaseSlot &slot, F f)
{
    for (pg_atomic_uint32 &place : slot.subscriptions)
    {
        const uint32 number = pg_atomic_read_u32(&place);
        if (number != 0)
            f(shared_state()->subscriptions[number - 1]);
    }
}

// The same for each relay of the database, f(RelayEntry &).
template <typename F>
void
for_each_relay(DatabaseSlot &slot, F f)
{
    f(slot.relay);
    for_each_subscription(slot, [&](SubscriptionSlot &other) { f(other.relay); });
}

// Null: there is none.
OUTBOX_FOR_RELAY SubscriptionSlot *find_subscription(DatabaseSlot &slot, const char *name);

// The place of a subscription, taken now if it had none, and wanted; null when all are in use.
OUTBOX_FOR_RELAY SubscriptionSlot *claim_subscription(DatabaseSlot &slot, const char *name);

// Gives a place back whose relay has ended. `slot`, if not null, is its database's.
void free_subscription(DatabaseSlot *slot, SubscriptionSlot &subscription);

// Whether this process is a relay of its database.
bool is_relay_here();

} // namespace outbox
