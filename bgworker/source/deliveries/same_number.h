// Rows of outbox.deliveries are found by their event's number.
#pragma once

#include "bgworker/engine/event.h"

#include "extension/server/pg.h"

namespace outbox
{

Datum uuid_datum(const Event &event);

// No number is given twice. Should another event have this one all the same, as the sequence was
// set back unnoticed, its row is not taken for that of the event, which would be lost. Removes a
// row that is DISCARDED and returns true; raises an error for another one; returns false when there
// is none. Connected to SPI.
bool displace_other(const Event &event);

} // namespace outbox
