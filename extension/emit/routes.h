// outbox.routes, as this process has read it last.
#pragma once

#include "extension/core/routes.h"

#include "event_table.h"

#include "extension/server/text_view.h"

namespace outbox
{

// Whether the table may have changed since load_routes() last read it, as far as this process has
// heard: it hears when it locks a table or begins a transaction. True at first.
OUTBOX_FOR_RELAY bool routes_changed();

enum class RoutesLoaded
{
    current, // routes() is what is committed now, and what this transaction has changed
    locked,  // another session holds an exclusive lock; routes() is as before
    broken   // a row cannot be used, routes() is as before; the verdict says why
};

// Reads the table, whatever the rights of the current user are. Needs a transaction, not in
// parallel mode. Waits for a lock if told so. Raises PostgreSQL's errors.
OUTBOX_FOR_RELAY RoutesLoaded load_routes(bool wait, Verdict *verdict);

// The same without waiting, and without a report.
RoutesLoaded load_routes();

// Raises object_not_in_prerequisite_state when a column was replaced.
void check_route_columns(TupleDesc desc);

// What was read last; null when nothing has been read, or nothing that could be used.
OUTBOX_FOR_RELAY const RouteTable *routes();

} // namespace outbox
