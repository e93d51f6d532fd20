// The tables of replays, for others than the engine.
#pragma once

#include "relation_lock.h"

namespace outbox
{

// These need a transaction with an active snapshot and raise PostgreSQL's errors.

// Locks the tables without waiting. An older version of the extension does not have them.
OpenResult lock_replay_tables();

// A replay that has not ended and has events in this partition: its id, and whose it is unless it
// is the one of `default`; or null. In the current memory context.
const char *replay_that_needs(int slot);

// The subscription is detached: its replays fail, and their partitions are needed no longer.
void end_replays_of(const char *subscription);

} // namespace outbox
