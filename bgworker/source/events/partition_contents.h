// What a partition still holds, by its index: for restored dumps, and to know when it can be
// emptied.
#pragma once

#include "bgworker/engine/common/xid_snapshot.h"

#include "event_tables.h"

namespace outbox
{

// Whether there are rows that came with a dump and have no place in the stream yet: their xid is
// negative.
bool has_restored_events(EventTables *tables);

// Whether the partition has an event that the snapshot does not see, or one that came with a dump
// and is not settled yet.
bool has_events_beyond(EventTables *tables, int slot, const XidSnapshot &snapshot);

// Whether the partition has events of this transaction id.
bool has_events_of(EventTables *tables, int slot, int64 xid);

// The lowest transaction id above 0 of all events; PG_INT64_MAX when there is none.
int64 lowest_xid(EventTables *tables);

} // namespace outbox
