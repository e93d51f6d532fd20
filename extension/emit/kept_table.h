// A partition of outbox.events that stays open from one emit() of a statement to the next: opening
// it and its indexes for each event would take as long as a fifth of the insertion.
#pragma once

#include "direct_insert.h"
#include "event_layout.h"

namespace outbox
{

struct KeptTable
{
    Relation table; // null: none is open
    EventLayout layout;
    uint64 changes; // layout_changes() when it was read
    OpenIndexes indexes;
    TupleTableSlot *row;
    MemoryContext context; // of all of it
    bool busy;             // a row is being inserted
};

// The table, opened under a lock that the caller's statement keeps. Null when it is to be opened
// for this event alone: for the first event of a statement, outside of any, in a subtransaction
// that began within it, and for a table that is not plain. What the table has become since is
// seen, as it is when it is opened. Raises what require_usable() and event_layout() raise.
KeptTable *kept_table(Oid table);

// Closes what statements keep open. Before a utility command, which refuses to change tables that
// are in use.
void close_kept_tables();

// Once, from _PG_init.
void install_statement_hook();

} // namespace outbox
