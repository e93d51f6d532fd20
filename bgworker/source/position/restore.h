// Events that a restored dump brought.
#pragma once

#include "extension/server/pg.h"

namespace outbox
{

struct RestoreResult
{
    bool settled;     // something was done
    bool no_position; // that of this database is not there any more
    bool broken;      // `problem` says what an operator has to decide
    bool waiting;     // `problem` says what of the dump is not there yet, or is locked
    bool locked;      // a table to be read is locked; nothing is known
    bool undecided;   // only for a lock that is in the way; with `waiting`
};

// Decides about restored events that are not settled yet: those that the dumped database had
// published stay as they are, those that it had set aside are set aside here, the others become
// events of this transaction and are published. Needs a transaction with an active snapshot. Cheap
// when there is nothing to do.
//
// A transaction id means nothing in another cluster, so the insert trigger turns the sign of what a
// restore writes (see extension/emit/emit.cpp); a window never contains such rows. The restored row
// of outbox.relay_position says which of them were published, outbox.restored_deliveries which were
// set aside. Nothing is decided before outbox.dump_rows says that all rows of the dump are there:
// each of them can change what is to be done with the others.
//
// Dumps of versions before 0.2.1 have no such counts. Of those, events are settled as soon as there
// is a position, again and again as long as rows arrive; what was set aside follows when it comes.
RestoreResult settle_restored_events(char *problem, size_t problem_size);

} // namespace outbox
