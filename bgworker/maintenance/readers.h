// Subscriptions besides `default`, as the ring sees them: readers that hold events back. Statements
// only; what they lead to is in detaching.cpp.
#pragma once

#include "ring_store.h"

#include "extension/shared/max_lag.h"

namespace outbox
{

// All of these need a transaction with an active snapshot and raise PostgreSQL's errors.

struct Reader
{
    char name[NAMEDATALEN];
    XidSnapshot published; // it has passed all that this one sees
    bool detached;
    MaxLag max_lag;
    TimestampTz attached_at;
    TimestampTz detached_at;
};

// Reads the next one in the order of names, behind `reader`, which begins with an empty name.
// False: there is no other one.
bool read_next_reader(Reader *reader);

// Whether it has refused events in the partition that are tried again, or others wait behind them.
bool has_unsettled(int slot, const Reader &reader);

// Whether it holds events of the partition that `default` had published before this time, or that
// were refused before it. By the time of the commit, not by created_at: a long transaction's events
// are old when they are first seen.
bool holds_since(int slot, const Reader &reader, TimestampTz time);

// Lets go of a subscription. False: a transaction changes it just now.
bool write_detached(const char *name);

// What a detached subscription misses when the partition is emptied: events of its types that it
// has not passed.
struct Missed
{
    char name[NAMEDATALEN];
    TimestampTz detached_at;
    int64 xid; // counted so far, in the order of both
    int64 seq;
    int64 events;
    bool all; // they are counted
};
// Counts a part of them.
void count_missed(int slot, Missed *missed);
// Adds the count to the subscription, and removes what it has not settled of the partition. False:
// a transaction changes it, or it is attached.
bool write_missed(int slot, const Missed &missed);

} // namespace outbox
