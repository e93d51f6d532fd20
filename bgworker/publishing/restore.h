// Events that a restored dump brought.
#pragma once

#include "extension/pg.h"

namespace outbox
{

struct RestoreResult
{
    bool settled; // something was done
    bool broken;  // `problem` says what a person has to decide
};

// Decides about events that were restored and not yet looked at: those that the dumped database had
// published stay as they are, the others become events of this transaction and are published.
// Needs a transaction with an active snapshot. Cheap when there is nothing to do.
//
// A transaction id means nothing in another cluster, so the insert trigger turns the sign of what a
// restore writes (see extension/emit.cpp); a window never contains such rows. The restored row of
// outbox.relay_position tells which of them were published. It stays, because the tables of a dump
// arrive one by one, and this is done again as long as rows arrive.
RestoreResult settle_restored_events(char *problem, size_t problem_size);

} // namespace outbox
