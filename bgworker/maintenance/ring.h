// The ring of partitions of outbox.events: new events go to the next one, old ones are emptied.
#pragma once

#include "extension/shared/shared_state.h"

namespace outbox
{

// Reads which partition is the current one, and writes it to shared memory for backends. In a
// transaction with a snapshot.
void load_ring(DatabaseSlot *slot);

// The current partition.
int current_partition();

// Does what is due: truncates a partition whose events are older than outbox.retention, switches to
// an empty one when the current one has had its time. Waits for no lock. Without a transaction.
// Returns when to call it again, in ms.
int maintain_ring(DatabaseSlot *slot, TimestampTz now);

} // namespace outbox
