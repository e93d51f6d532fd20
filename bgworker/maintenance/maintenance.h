// Summaries of the block range indexes.
#pragma once

#include "extension/server/pg.h"

namespace outbox
{

// Summarizes new blocks of the ring in the indexes on id once there are enough of them, so that an
// event is found by its id without reading all recent ones. In a transaction of its own, a few
// milliseconds long; skips what is locked. Returns whether there is more to do.
bool summarize_new_blocks(int current_slot);

// The partition was truncated.
void forget_summaries(int slot);

} // namespace outbox
