// Tells backends which emission numbers have been given before the server started: from then on
// they know it themselves, see extension/event_numbers.h.
#pragma once

#include "extension/pg.h"

namespace outbox
{

// By the sequence, by outbox.deliveries and by `last_seq`. A sequence that is behind is set
// forward. Needs a transaction with a snapshot that may read outbox.deliveries without waiting;
// does nothing when somebody has locked the sequence.
void learn_numbers(int64 last_seq);

} // namespace outbox
