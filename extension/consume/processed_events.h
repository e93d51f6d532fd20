// Rows of outbox.processed_events, written without a statement of SQL.
#pragma once

#include "extension/server/pg.h"

namespace outbox
{

// Inserts a row for each event of `ids`, which are in the order of memcmp() and none of them twice,
// in the caller's transaction. Sets is_new[i] if there was none; waits where another transaction
// has inserted or removed it and may still go back. Rows are inserted in the order of the ids, so
// that callers never wait for each other in a circle. Only at READ COMMITTED: the other levels ask
// for more than the index can tell. The caller needs no right on the table.
void insert_processed(Datum consumer, Datum *ids, int count, bool *is_new);

// The same by statements of SQL, at every isolation level.
void insert_each(Datum consumer, Datum *ids, int count, bool *is_new);

// The same for one event by a statement of SQL.
bool insert_processed_by_statement(Datum consumer, Datum id);

} // namespace outbox
