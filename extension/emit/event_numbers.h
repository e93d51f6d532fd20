// The emission numbers of events: each is larger than those that were given before.
#pragma once

#include "extension/server/pg.h"
#include "extension/shared/for_relay.h"

namespace outbox
{

// The next emission number. Taken after the key's lock, so that numbers of a key follow its order.
// When the sequence was set back, it is set forward again, with a WARNING.
int64 next_seq();

// Numbers up to `seq` have been given in this database, whatever its sequence says.
OUTBOX_FOR_RELAY void record_numbers_to(int64 seq);

// The same, and the sequence is set forward, without a word, when it is behind. What others draw
// meanwhile is not given again.
OUTBOX_FOR_RELAY void raise_numbers_to(int64 seq);

// Records what the sequence has given, and sets it forward, with a WARNING, when it was set back.
// Takes a RowExclusiveLock on it.
OUTBOX_FOR_RELAY void check_sequence();

} // namespace outbox
