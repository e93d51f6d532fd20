// What comes of subscriptions that hold events back: they are let go of when their options say so.
#pragma once

#include "readers.h"

namespace outbox
{

// Of a look at all partitions: which subscriptions hold one of them back for longer than their
// max_lag.
void begin_lagging();
void note_lagging(const Reader &reader);
// Detaches those that have done so for a while, or says so when they are to be waited for. Without
// a transaction.
void end_lagging();

// Whether a detached subscription's relay still runs, which is then asked to end.
bool is_still_served(const Reader &reader);

// The subscriptions that miss events when the partition is emptied, of a look at it.
void begin_missing(int slot);
void note_missing(int slot, const Reader &reader);
// Counts a part of what they miss; false: there is more. Without a transaction.
bool count_missing(int slot);
// Adds the counts to the subscriptions. False: they are not those that were counted, or a
// transaction changes one.
bool write_missing(int slot);

} // namespace outbox
