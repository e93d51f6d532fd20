// Where a partition of outbox.events has the columns, and what was added to it. Columns
// that were added and dropped leave their places behind, in each partition in its own way.
#pragma once

#include "event_table.h"

namespace outbox
{

struct EventLayout
{
    Oid table; // InvalidOid: to be looked at again
    int slot;
    AttrNumber place[kEventColumns]; // attribute number of each EventColumn, in their order
    // Nothing but our columns, and nothing that PostgreSQL does when a row is inserted: no
    // constraint, default, generated column or trigger but our own.
    bool plain;

    AttrNumber place_of(EventColumn column) const { return place[column - 1]; }
};

// The layout of an open partition, kept while the table stays as it is. It is overwritten when it
// changes, so copy what is to outlive the lock. Raises object_not_in_prerequisite_state when the
// table cannot be used as it is, and undefined_table for one that is no partition of ours.
OUTBOX_FOR_RELAY const EventLayout &event_layout(Relation partition);

// Goes up whenever a partition may have become another one than event_layout() and
// require_usable() have seen.
uint64 layout_changes();

// What may be written to: raises object_not_in_prerequisite_state for a partition that is detached
// or unlogged, as what goes there would be lost.
void require_usable(Relation partition);

} // namespace outbox
