#include "subscription_slots.h"

#include "stats_memory.h"

namespace outbox
{

namespace
{

pg_atomic_uint32 *
free_place(DatabaseSlot &slot)
{
    for (pg_atomic_uint32 &place : slot.subscriptions)
        if (pg_atomic_read_u32(&place) == 0)
            return &place;
    return nullptr;
}

// With the lock held.
SubscriptionSlot *
take(DatabaseSlot &slot, const char *name)
{
    pg_atomic_uint32 *place = free_place(slot);
    for (SubscriptionSlot &free : shared_state()->subscriptions)
    {
        if (place == nullptr || pg_atomic_read_u32(&free.database) != InvalidOid)
            continue;
        strlcpy(free.name, name, sizeof(free.name));
        clear(&free.relay);
        pg_atomic_write_u32(&free.wanted, 1);
        pg_write_barrier();
        pg_atomic_write_u32(&free.database, pg_atomic_read_u32(&slot.database));
        pg_atomic_write_u32(place, static_cast<uint32>(&free - shared_state()->subscriptions) + 1);
        return &free;
    }
    return nullptr;
}

} // namespace

SubscriptionSlot *
find_subscription(DatabaseSlot &slot, const char *name)
{
    SubscriptionSlot *found = nullptr;
    for_each_subscription(slot,
                          [&](SubscriptionSlot &subscription)
                          {
                              if (strcmp(subscription.name, name) == 0)
                                  found = &subscription;
                          });
    return found;
}

SubscriptionSlot *
claim_subscription(DatabaseSlot &slot, const char *name)
{
    LWLockAcquire(shared_state()->lock, LW_EXCLUSIVE);
    SubscriptionSlot *found = find_subscription(slot, name);
    if (found != nullptr)
        pg_atomic_write_u32(&found->wanted, 1);
    else
        found = take(slot, name);
    LWLockRelease(shared_state()->lock);
    return found;
}

void
free_subscription(DatabaseSlot *slot, SubscriptionSlot &subscription)
{
    const uint32 number = static_cast<uint32>(&subscription - shared_state()->subscriptions) + 1;
    LWLockAcquire(shared_state()->lock, LW_EXCLUSIVE);
    if (slot != nullptr)
        for (pg_atomic_uint32 &place : slot->subscriptions)
            if (pg_atomic_read_u32(&place) == number)
                pg_atomic_write_u32(&place, 0);
    free_stats_areas(pg_atomic_read_u32(&subscription.database), subscription.name);
    pg_atomic_write_u32(&subscription.database, InvalidOid);
    LWLockRelease(shared_state()->lock);
}

bool
is_relay_here()
{
    DatabaseSlot *slot = find_slot(MyDatabaseId);
    bool is_one = false;
    if (slot != nullptr)
        for_each_relay(*slot,
                       [&](RelayEntry &relay) {
                           is_one = is_one || pg_atomic_read_u32(&relay.pid) ==
                                                  static_cast<uint32>(MyProcPid);
                       });
    return is_one;
}

} // namespace outbox
