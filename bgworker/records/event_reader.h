// Reads committed events: index entries of a window, and rows by their place.
#pragma once

#include "bgworker/core/window_keys.h"
#include "bgworker/core/xid_snapshot.h"

#include "event_tables.h"

namespace outbox
{

// A row of outbox.events. Points into the slot's buffers until the next row of that slot is read.
// The texts are as they are stored, perhaps compressed or out of line: what is in them only
// event_record.h finds out, which can fail. Null: SQL's null.
struct EventRow
{
    int slot;
    int64 seq;
    int64 xid;
    // When it was emitted, for how long it has been waiting: created_at, but never later than now.
    TimestampTz emitted_at;
    TimestampTz created_at;
    pg_uuid_t id; // made from seq and xid when the row has none
    bool has_schema_version;
    int32 schema_version;
    struct varlena *aggregate_type;
    struct varlena *aggregate_id;
    struct varlena *event_type;
    struct varlena *partition_key; // null: aggregate_id
    struct varlena *payload;
    struct varlena *payload_bytes;
    struct varlena *headers;
    const char *missing; // a column that is null and must not be, or null
};

// The snapshot of the current transaction, in 64-bit form. May raise an error.
void take_snapshot(XidSnapshot *snapshot);

// Runs the scan that `keys` needs. Raises *commit_lsn to the last commit record that may not be
// flushed yet, of all transactions met, and *largest_seq to the largest number met. Returns false
// when a shutdown was requested meanwhile.
bool scan_keys(EventTables *tables, WindowKeys *keys, XLogRecPtr *commit_lsn, int64 *largest_seq);

// Reads the row of a key: at its place, or, when the table was rewritten since, where the index
// says that it is. False when there is no such row: its subtransaction or transaction was rolled
// back; or somebody has removed it, which is told in the log.
bool fetch_event(EventTables *tables, const EventKey &key, TimestampTz now, EventRow *event);

// Finds the row of an event by its numbers, in this slot or another one, and reads it; false when
// it is not there.
bool find_event(EventTables *tables, int slot, int64 xid, int64 seq, TimestampTz now,
                EventRow *event);

// Notes that an event was removed by hand before it was published, for tell_removed().
void note_removed(int slot, int64 seq) noexcept;

// Tells the log of removed events, once none was noted since the call before.
void tell_removed();

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

} // namespace outbox
