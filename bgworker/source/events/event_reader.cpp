#include "event_reader.h"

#include "commit_status.h"
#include "event_index.h"
#include "removed_events.h"
#include "window_scan.h"

#include "extension/server/pg_scan.h"

namespace outbox
{

namespace
{

// The row in a slot's buffers, column by column.
struct Columns
{
    const EventTables::Slot &slot;

    int index(EventColumn number) const { return slot.columns[number - 1] - 1; }
    bool is_null(EventColumn number) const { return slot.row->tts_isnull[index(number)]; }
    Datum value(EventColumn number) const { return slot.row->tts_values[index(number)]; }
    struct varlena *stored(EventColumn number) const
    {
        return is_null(number) ? nullptr
                               : reinterpret_cast<struct varlena *>(DatumGetPointer(value(number)));
    }
};

// An operator settles an event by its id: version 8 of RFC 9562, with the numbers in it.
void
make_id(int64 xid, int64 seq, pg_uuid_t *id)
{
    uint64 halves[2] = {static_cast<uint64>(xid), static_cast<uint64>(seq)};
    for (int i = 0; i < UUID_LEN; i++)
        id->data[i] = static_cast<unsigned char>(halves[i / 8] >> (56 - 8 * (i % 8)));
    id->data[6] = static_cast<unsigned char>(0x80 | (id->data[6] & 0x0f));
    id->data[8] = static_cast<unsigned char>(0x80 | (id->data[8] & 0x3f));
}

void
read_columns(const EventTables::Slot &slot, int number, TimestampTz now, EventRow *event)
{
    const Columns row = {slot};
    event->slot = number;
    event->missing = nullptr;
    event->has_schema_version = !row.is_null(kSchemaVersion);
    event->schema_version =
        event->has_schema_version ? DatumGetInt32(row.value(kSchemaVersion)) : 0;
    event->aggregate_type = row.stored(kAggregateType);
    event->aggregate_id = row.stored(kAggregateId);
    event->event_type = row.stored(kEventType);
    event->partition_key = row.stored(kPartitionKey);
    event->payload = row.stored(kPayload);
    event->payload_bytes = row.stored(kPayloadBytes);
    event->headers = row.stored(kHeaders);
    if (event->aggregate_type == nullptr)
        event->missing = "aggregate_type";
    else if (event->aggregate_id == nullptr)
        event->missing = "aggregate_id";
    else if (event->event_type == nullptr)
        event->missing = "event_type";
    event->created_at = now;
    if (row.is_null(kCreatedAt))
        event->missing = "created_at";
    else
        event->created_at = DatumGetTimestampTz(row.value(kCreatedAt));
    event->emitted_at = TIMESTAMP_NOT_FINITE(event->created_at) ? now : Min(event->created_at, now);
    if (!row.is_null(kId))
        event->id = *DatumGetUUIDP(row.value(kId));
    else
    {
        make_id(event->xid, event->seq, &event->id);
        event->missing = "id";
    }
}

// Reads the row at a place, if it is the one of these numbers: another one may have been put there,
// or the table may have become shorter since. To read past its end would be an error, and from
// PostgreSQL 16 on leave a page in the buffers that makes the next one's INSERT fail.
bool
read_at(EventTables *tables, int number, ItemPointerData place, int64 xid, int64 seq,
        TimestampTz now, EventRow *event)
{
    EventTables::Slot &slot = tables->slots[number];
    bool again = false;
    bool all_dead = false;
    if (slot.fetch == nullptr || ItemPointerGetBlockNumber(&place) >= slot.blocks ||
        !table_index_fetch_tuple(slot.fetch, &place, GetActiveSnapshot(), slot.row, &again,
                                 &all_dead))
        return false;
    slot_getallattrs(slot.row);
    const Columns row = {slot};
    if (row.is_null(kSeq) || row.is_null(kXid) || DatumGetInt64(row.value(kSeq)) != seq ||
        DatumGetInt64(row.value(kXid)) != xid)
        return false;
    event->seq = seq;
    event->xid = xid;
    read_columns(slot, number, now, event);
    return true;
}

// Whether the row at a place of the index is none because what wrote it was rolled back.
bool
is_rolled_back(const EventTables::Slot &slot, ItemPointer place)
{
    ItemPointerData at = *place;
    bool again = false;
    bool all_dead = false;
    if (!table_index_fetch_tuple(slot.fetch, &at, SnapshotAny, slot.row, &again, &all_dead))
        return false;
    bool is_null;
    const Datum writer = slot_getsysattr(slot.row, MinTransactionIdAttributeNumber, &is_null);
    return !is_null && !TransactionIdDidCommit(DatumGetTransactionId(writer));
}

// Looks for the row in the index of one slot. `rolled_back`, if given, is set when there is an
// entry of a row that was.
bool
find_in_slot(EventTables *tables, int number, int64 xid, int64 seq, TimestampTz now,
             EventRow *event, bool *rolled_back)
{
    const EventTables::Slot &slot = tables->slots[number];
    if (slot.index == nullptr)
        return false;
    ScanKeyData keys[3];
    const uint64 transaction = static_cast<uint64>(xid);
    const int count = set_keys(keys, {number, {transaction, seq}, {transaction, seq}});
    IndexScanDesc scan = begin_index_scan(slot.table, slot.index, GetActiveSnapshot(), count);
    index_rescan(scan, keys, count, nullptr, 0);
    bool found = false;
    ItemPointer place;
    while (!found && (place = index_getnext_tid(scan, ForwardScanDirection)) != nullptr)
    {
        found = read_at(tables, number, *place, xid, seq, now, event);
        if (!found && rolled_back != nullptr)
            *rolled_back = *rolled_back || is_rolled_back(slot, place);
    }
    index_endscan(scan);
    return found;
}

} // namespace

bool
fetch_event(EventTables *tables, const EventKey &key, TimestampTz now, EventRow *event)
{
    const int slot = slot_of(key.locator);
    const int64 xid = static_cast<int64>(key.xid);
    ItemPointerData place;
    ItemPointerSet(&place, static_cast<BlockNumber>(key.locator >> 16),
                   static_cast<OffsetNumber>(key.locator & 0xffff));
    if (read_at(tables, slot, place, xid, key.seq, now, event))
        return true;
    bool rolled_back = false;
    if (find_in_slot(tables, slot, xid, key.seq, now, event, &rolled_back))
        return true;
    if (!rolled_back && has_committed(key.xid))
        count_removed(slot, key.seq);
    return false;
}

bool
find_event(EventTables *tables, int slot, int64 xid, int64 seq, TimestampTz now, EventRow *event)
{
    bool found =
        slot >= 0 && slot < kRingSlots && find_in_slot(tables, slot, xid, seq, now, event, nullptr);
    for (int other = 0; other < kRingSlots && !found; other++)
        found = other != slot && find_in_slot(tables, other, xid, seq, now, event, nullptr);
    return found;
}

} // namespace outbox
