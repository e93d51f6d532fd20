// Finds the extension's relations quickly.
#pragma once

#include "event_table.h"

namespace outbox
{

// The oid of outbox.events_<slot>, or of outbox.events_seq. Remembered until somebody changes a
// relation or a schema. Raises undefined_table when the extension is not in this database.
Oid events_table(int slot);
Oid events_sequence();

} // namespace outbox
