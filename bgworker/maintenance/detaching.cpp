#include "detaching.h"

#include "bgworker/source/relation_lock.h"
#include "bgworker/source/short_transaction.h"

#include "extension/core/steady.h"
#include "extension/shared/subscription_slots.h"

namespace outbox
{

namespace
{

// For as long a subscription can show that it is well after a restart, or when the clock was set
// forward.
constexpr std::int64_t kGraceUs = std::int64_t{60} * 1000 * 1000;

struct Lagging
{
    char name[NAMEDATALEN]; // empty: none
    MaxLag max_lag;
    std::int64_t since; // by the steady clock
    bool seen;          // in this look
    bool told;
};
Lagging lagging[kMaxSubscriptions];

struct MissedByAll
{
    int count;
    Missed subscriptions[kMaxSubscriptions];
};
MissedByAll found[kRingSlots]; // by the last look at each partition
MissedByAll counted;           // of one partition
int counted_slot = -1;

Lagging *
find_lagging(const char *name)
{
    for (Lagging &one : lagging)
        if (strcmp(one.name, name) == 0)
            return &one;
    return nullptr;
}

SubscriptionSlot *
place_of(const char *name)
{
    DatabaseSlot *database = find_slot(MyDatabaseId);
    return database == nullptr ? nullptr : find_subscription(*database, name);
}

void
say_that_it_holds(Lagging &one)
{
    if (!one.told)
        ereport(WARNING,
                (errmsg("outbox: subscription \"%s\" holds events back for longer than its max_lag",
                        one.name),
                 errdetail("The limit is %d s.", one.max_lag.seconds),
                 errhint("See outbox.subscription_status. With the option on_lag = detach it would "
                         "be let go of.")));
    one.told = true;
}

void
detach(Lagging &one)
{
    begin_transaction();
    const bool done = OidIsValid(get_extension_oid("outbox", true)) &&
                      lock_wholly("subscriptions", RowExclusiveLock) &&
                      lock_wholly("subscription_history", RowExclusiveLock) &&
                      lock_wholly("relay_position", AccessShareLock) && write_detached(one.name);
    end_transaction();
    if (!done)
        return;
    ereport(WARNING,
            (errmsg("outbox: subscription \"%s\" is detached: it has held events back for longer "
                    "than its max_lag",
                    one.name),
             errdetail("It sends nothing from now on, and misses what is removed. The limit was %d "
                       "s.",
                       one.max_lag.seconds),
             errhint("outbox.attach_subscription('%s', 'retained') has it continue with what is "
                     "kept.",
                     one.name)));
    SubscriptionSlot *place = place_of(one.name);
    if (place != nullptr)
    {
        pg_atomic_write_u32(&place->wanted, 0);
        end_relay(&place->relay);
        wake_launcher();
    }
    one = {};
}

bool
are_same(const Missed &left, const Missed &right)
{
    return strcmp(left.name, right.name) == 0 && left.detached_at == right.detached_at;
}

bool
found_are_counted(int slot)
{
    bool same = counted_slot == slot && counted.count == found[slot].count;
    for (int i = 0; same && i < counted.count; i++)
        same = are_same(counted.subscriptions[i], found[slot].subscriptions[i]);
    return same;
}

} // namespace

void
begin_lagging()
{
    for (Lagging &one : lagging)
        one.seen = false;
}

void
note_lagging(const Reader &reader)
{
    Lagging *one = find_lagging(reader.name);
    if (one == nullptr)
        one = find_lagging("");
    if (one == nullptr)
        return;
    if (one->name[0] == '\0')
    {
        strlcpy(one->name, reader.name, sizeof(one->name));
        one->since = steady_now();
    }
    one->max_lag = reader.max_lag;
    one->seen = true;
}

void
end_lagging()
{
    for (Lagging &one : lagging)
    {
        if (!one.seen)
            one = {};
        if (one.name[0] == '\0' ||
            steady_now() - one.since < Min(kGraceUs, one.max_lag.seconds * std::int64_t{1000000}))
            continue;
        if (one.max_lag.detaches)
            detach(one);
        else
            say_that_it_holds(one);
    }
}

bool
is_still_served(const Reader &reader)
{
    SubscriptionSlot *place = place_of(reader.name);
    if (place == nullptr || pg_atomic_read_u32(&place->relay.pid) == 0)
        return false;
    pg_atomic_write_u32(&place->wanted, 0);
    end_relay(&place->relay);
    return true;
}

void
begin_missing(int slot)
{
    found[slot].count = 0;
}

void
note_missing(int slot, const Reader &reader)
{
    if (found[slot].count == kMaxSubscriptions)
        return;
    Missed &one = found[slot].subscriptions[found[slot].count++];
    one = {};
    strlcpy(one.name, reader.name, sizeof(one.name));
    one.detached_at = reader.detached_at;
    one.xid = one.seq = PG_INT64_MIN;
}

bool
count_missing(int slot)
{
    if (!found_are_counted(slot))
        counted = found[slot];
    counted_slot = slot;
    for (int i = 0; i < counted.count; i++)
    {
        Missed &one = counted.subscriptions[i];
        if (one.all)
            continue;
        begin_transaction();
        if (lock_events(AccessShareLock) && lock_wholly("subscription_history", AccessShareLock) &&
            lock_wholly("deliveries", AccessShareLock) &&
            lock_wholly("relay_position", AccessShareLock))
            count_missed(slot, &one);
        end_transaction();
        return false;
    }
    return true;
}

bool
write_missing(int slot)
{
    bool written = found_are_counted(slot);
    for (int i = 0; written && i < counted.count; i++)
        written = counted.subscriptions[i].all && write_missed(slot, counted.subscriptions[i]);
    counted_slot = -1; // what comes into it later is counted anew
    return written;
}

} // namespace outbox
