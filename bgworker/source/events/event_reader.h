// Reads rows of outbox.events, by their place or by their numbers.
#pragma once

#include "bgworker/engine/common/window_keys.h"

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

// Reads the row of a key: at its place, or, when the table was rewritten since, where the index
// says that it is. False when there is no such row: its subtransaction or transaction was rolled
// back; or it was removed, which log_removed() reports.
bool fetch_event(EventTables *tables, const EventKey &key, TimestampTz now, EventRow *event);

// Finds the row of an event by its numbers, in this slot or another one, and reads it; false when
// it is not there.
bool find_event(EventTables *tables, int slot, int64 xid, int64 seq, TimestampTz now,
                EventRow *event);

} // namespace outbox
