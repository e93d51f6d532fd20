// The ring of partitions of outbox.events: new events go to the next one, old ones are emptied.
#pragma once

#include "extension/shared_state.h"

namespace outbox
{

// Reads which partition is the current one and tells backends. In a transaction with a snapshot.
void load_ring(DatabaseSlot *slot);

// The current partition.
int ring_slot();

// Does what is due: truncates a partition whose events are older than outbox.retention, goes on to
// an empty one when the current one has had its time. Waits for no lock. Without a transaction.
// Returns when to call it again, in ms.
int turn_ring(DatabaseSlot *slot, TimestampTz now);

} // namespace outbox
