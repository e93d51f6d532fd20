// Reads committed events: index entries of a window, and rows by their place.
#pragma once

#include <string_view>

#include "bgworker/core/window_keys.h"
#include "bgworker/core/xid_snapshot.h"

#include "bgworker/relation_lock.h"

#include "extension/event_table.h"

namespace outbox
{

// A row of outbox.events. Points into the reader's buffers until the next fetch.
struct EventRow
{
    int64 seq;
    int64 xid;
    TimestampTz created_at;
    const pg_uuid_t *id;
    bool has_schema_version;
    int32 schema_version;
    text *aggregate_type;
    text *aggregate_id;
    text *event_type;
    text *partition_key; // null: aggregate_id
    Jsonb *payload;
    bytea *payload_bytes;
    Jsonb *headers;
};

// The ring's tables, opened for one transaction.
struct EventTables
{
    struct Slot
    {
        Relation table; // null: the slot is empty, or not opened
        Relation index;
        IndexFetchTableData *fetch;
        TupleTableSlot *row;
    };
    Slot slots[kRingSlots];
};

// Opens the tables without waiting for a lock. To be called first in a transaction.
OpenResult open_events(EventTables *tables);

// Closes them; the locks go with the transaction.
void close_events(EventTables *tables);

// The snapshot of the current transaction, in 64-bit form. May raise an error.
void take_snapshot(XidSnapshot *snapshot);

// Runs the scan that `keys` needs. Raises *commit_lsn to the last commit record that may not be
// flushed yet, of all transactions met. Returns false when a shutdown was requested meanwhile.
bool scan_keys(EventTables *tables, WindowKeys *keys, XLogRecPtr *commit_lsn);

// Reads the row at the place; false when it is not there: its subtransaction or transaction was
// rolled back. Memory goes to the current context.
bool fetch_event(EventTables *tables, const EventKey *key, EventRow *event);

// Finds the row of an event by its numbers and reads it; false when it is not there.
bool find_event(EventTables *tables, int slot, int64 xid, int64 seq, EventRow *event);

// Whether there are rows that came with a dump and have no place in the stream yet: their xid is
// negative.
bool has_restored_events(EventTables *tables);

// Whether the slot has an event that the snapshot does not see, or one that came with a dump and is
// not settled yet.
bool has_events_beyond(EventTables *tables, int slot, const XidSnapshot &snapshot);

// Whether the slot has events of this transaction id.
bool has_events_of(EventTables *tables, int slot, int64 xid);

// The lowest transaction id above 0 of all events; PG_INT64_MAX when there is none.
int64 lowest_xid(EventTables *tables);

// Encoding of a row's place: slot, block, offset.
Locator make_locator(int slot, const ItemPointerData *place);
int slot_of(Locator locator);

// The Kafka key of an event, in the server's encoding.
std::string_view key_of(const EventRow &event);

} // namespace outbox
