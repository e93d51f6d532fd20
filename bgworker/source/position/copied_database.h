// What a database that was made by CREATE DATABASE … TEMPLATE does with what it brought along.
#pragma once

#include "extension/server/pg.h"

namespace outbox
{

// The transaction of CREATE DATABASE, or 0 when that is no longer known. No session was in the
// template meanwhile: what was committed there has a lower id, what was committed here a higher
// one.
uint64 transaction_of_creation();

// Gives up what is the original's to publish: all that it has set aside, the events that it had not
// published, and restored ones that it has not settled. outbox.deliveries says so of each, so that
// none of them counts as published. Without `created_by`, 0, only what was set aside is surely the
// original's. Between SPI_connect() and SPI_finish().
void leave_to_original(uint64 created_by);

} // namespace outbox
