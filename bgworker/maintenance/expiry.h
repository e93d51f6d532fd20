// Removes processed events and idempotency keys that have expired.
#pragma once

#include "extension/server/pg.h"

namespace outbox
{

// One step through outbox.processed_events and outbox.idempotency_keys: removes what has expired in
// the next few blocks of each, in a short transaction of its own. Waits for no lock: what is
// locked stays until the next round. Call it about once a second.
void remove_expired();

} // namespace outbox
