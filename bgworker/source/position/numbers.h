// Which emission numbers have been given, for backends: see extension/emit/event_numbers.h. Both
// need a transaction with a snapshot.
#pragma once

#include "extension/server/pg.h"

namespace outbox
{

// Reads what was given before the server started from outbox.deliveries, which can be read without
// waiting, and takes `last_seq`. From then on backends know it themselves.
void learn_numbers(int64 last_seq);

// The same of what waits, which is known once the first window is read.
void learn_number(int64 seq);

// Sets the sequence forward when it was set back. Does nothing when it is locked.
void check_numbers();

} // namespace outbox
