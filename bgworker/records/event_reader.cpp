#include "event_reader.h"

#include "bgworker/guard.h"

extern "C"
{
#include "access/clog.h"
#include "access/nbtree.h"
#include "utils/fmgroids.h"
}

namespace outbox
{

namespace
{

constexpr int kInterruptInterval = 4096;

void
set_key(ScanKeyData *key, AttrNumber column, StrategyNumber strategy, RegProcedure procedure,
        int64 value)
{
    ScanKeyInit(key, column, strategy, procedure, Int64GetDatum(value));
}

// Narrows a scan to the range: to the entry when it is within one transaction, else to its
// transactions. Returns the number of keys.
int
set_keys(ScanKeyData *keys, const IndexRange &range)
{
    const int64 first = static_cast<int64>(range.first.xid);
    const int64 last = static_cast<int64>(range.last.xid);
    if (first == last)
    {
        set_key(&keys[0], 1, BTEqualStrategyNumber, F_INT8EQ, first);
        set_key(&keys[1], 2, BTGreaterEqualStrategyNumber, F_INT8GE, range.first.seq);
        set_key(&keys[2], 2, BTLessEqualStrategyNumber, F_INT8LE, range.last.seq);
        return 3;
    }
    set_key(&keys[0], 1, BTGreaterEqualStrategyNumber, F_INT8GE, first);
    set_key(&keys[1], 1, BTLessEqualStrategyNumber, F_INT8LE, last);
    return 2;
}

// Whether the server still knows how this transaction ended. Ids are compared in their 64-bit form:
// a backlog may be older than what the 32-bit form can tell from the future. Hold
// XactTruncationLock to use the answer.
bool
has_commit_status(uint64 xid)
{
    const uint64 next = U64FromFullTransactionId(ReadNextFullTransactionId());
    const uint64 age = static_cast<uint32>(static_cast<uint32>(next) - oldest_known_xid());
    return xid < next && xid + age >= next && TransactionIdIsNormal(static_cast<uint32>(xid));
}

// Remembers the latest commit record that asynchronous commits of these transactions wrote. The
// server keeps one per group of 32 neighbouring ids, so one look a group is enough.
struct CommitLog
{
    uint64 last_group;
    XLogRecPtr latest;
};

constexpr uint64 kXidsPerLsnGroup = 32;

void
note_commit(CommitLog *log, uint64 xid)
{
    const uint64 group = xid / kXidsPerLsnGroup;
    if (group == log->last_group)
        return;
    log->last_group = group;
    // The status of very old transactions is gone, and with it any doubt about their durability. It
    // must not go while it is looked at.
    XLogRecPtr lsn = InvalidXLogRecPtr;
    LWLockAcquire(XactTruncationLock, LW_SHARED);
    // Not TransactionIdGetCommitLSN(): what that remembers of this id may be older than the commits
    // of its neighbours.
    if (has_commit_status(xid))
        (void) TransactionIdGetStatus(static_cast<TransactionId>(xid), &lsn);
    LWLockRelease(XactTruncationLock);
    if (lsn > log->latest)
        log->latest = lsn;
}

// Returns false when a shutdown was requested, or `keys` has no place left.
bool
scan_range(const EventTables::Slot &slot, const IndexRange &range, WindowKeys *keys, CommitLog *log,
           int64 *largest_seq)
{
    ScanKeyData scan_keys[3];
    const int count = set_keys(scan_keys, range);
    // No row is fetched through this scan, so its snapshot decides nothing.
    IndexScanDesc scan = begin_index_scan(slot.table, slot.index, GetActiveSnapshot(), count);
    scan->xs_want_itup = true;
    index_rescan(scan, scan_keys, count, nullptr, 0);

    bool more = true;
    int entries = 0;
    ItemPointer place;
    while (more && (place = index_getnext_tid(scan, ForwardScanDirection)) != nullptr)
    {
        bool is_null;
        const IndexPoint point = {
            static_cast<uint64>(
                DatumGetInt64(index_getattr(scan->xs_itup, 1, scan->xs_itupdesc, &is_null))),
            DatumGetInt64(index_getattr(scan->xs_itup, 2, scan->xs_itupdesc, &is_null))};
        if (range.last < point)
            break;
        if (!(point < range.first))
        {
            note_commit(log, point.xid);
            *largest_seq = Max(*largest_seq, point.seq);
            more = keys->offer(point.xid, point.seq, make_locator(range.slot, place));
        }
        if (++entries % kInterruptInterval == 0)
        {
            CHECK_FOR_INTERRUPTS();
            if (ShutdownRequestPending)
                more = false;
        }
    }
    index_endscan(scan);
    if (!more && !ShutdownRequestPending)
        ereport(ERROR,
                (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("no memory for the keys of outbox events"),
                 errdetail("The relay starts again from its position.")));
    return more;
}

// The highest transaction id in the slot's index, rolled-back rows included. Most slots of the ring
// end before a window begins, and a window has as many ranges as there are running transactions.
uint64
highest_xid(const EventTables::Slot &slot)
{
    IndexScanDesc scan = begin_index_scan(slot.table, slot.index, GetActiveSnapshot(), 0);
    scan->xs_want_itup = true;
    index_rescan(scan, nullptr, 0, nullptr, 0);
    uint64 highest = 0;
    if (index_getnext_tid(scan, BackwardScanDirection) != nullptr)
    {
        bool is_null;
        highest = static_cast<uint64>(
            DatumGetInt64(index_getattr(scan->xs_itup, 1, scan->xs_itupdesc, &is_null)));
    }
    index_endscan(scan);
    return highest;
}

// The first visible row that the key finds is left in the slot's `row`.
bool
find_row(const EventTables::Slot &slot, ScanKeyData *key)
{
    IndexScanDesc scan = begin_index_scan(slot.table, slot.index, GetActiveSnapshot(), 1);
    index_rescan(scan, key, 1, nullptr, 0);
    // Marks the entries of rows that are dead, so that they are read once.
    const bool found = index_getnext_slot(scan, ForwardScanDirection, slot.row);
    index_endscan(scan);
    return found;
}

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

// A person needs an id to settle an event by: version 8 of RFC 9562, with the numbers in it.
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

// Whether a transaction that has ended was committed.
bool
has_committed(uint64 xid)
{
    static uint64 last = 0;
    static bool last_committed = false;
    if (xid == last)
        return last_committed;
    LWLockAcquire(XactTruncationLock, LW_SHARED);
    // The rows of what was rolled back are removed before its status is.
    const bool committed =
        !has_commit_status(xid) || TransactionIdDidCommit(static_cast<TransactionId>(xid));
    LWLockRelease(XactTruncationLock);
    last = xid;
    last_committed = committed;
    return committed;
}

struct Removed
{
    uint64 count;
    uint64 told_of; // as of the call of tell_removed() before
    int slot;
    int64 first;
    int64 last;
};
Removed removed = {};

} // namespace

void
take_snapshot(XidSnapshot *snapshot)
{
    char *text = DatumGetCString(
        DirectFunctionCall1(pg_snapshot_out, OidFunctionCall0(F_PG_CURRENT_SNAPSHOT)));
    bool parsed = false;
    call_cpp([&] { parsed = XidSnapshot::parse(text, *snapshot); });
    if (!parsed)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR),
                        errmsg("could not read the snapshot \"%s\"", text)));
    pfree(text);
}

bool
scan_keys(EventTables *tables, WindowKeys *keys, XLogRecPtr *commit_lsn, int64 *largest_seq)
{
    CommitLog log = {PG_UINT64_MAX, *commit_lsn};
    const size_t ranges = keys->ranges().size();
    uint64 reach[kRingSlots];
    for (int slot = 0; slot < kRingSlots; slot++)
        reach[slot] = tables->slots[slot].index == nullptr ? 0 : highest_xid(tables->slots[slot]);
    for (size_t i = 0; i < ranges; i++)
    {
        const IndexRange range = keys->ranges()[i];
        keys->begin_range(i);
        const EventTables::Slot &slot = tables->slots[range.slot];
        if (slot.index != nullptr && range.first.xid <= reach[range.slot] &&
            !scan_range(slot, range, keys, &log, largest_seq))
            return false;
    }
    *commit_lsn = log.latest;
    call_cpp([&] { keys->finish_scan(); });
    return true;
}

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
        note_removed(slot, key.seq);
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

void
note_removed(int slot, int64 seq) noexcept
{
    if (removed.count == 0)
        removed.first = removed.last = seq;
    removed.count++;
    removed.slot = slot;
    removed.first = Min(removed.first, seq);
    removed.last = Max(removed.last, seq);
}

void
tell_removed()
{
    if (removed.count == 0)
        return;
    if (removed.count != removed.told_of)
    {
        removed.told_of = removed.count;
        return;
    }
    const Removed told = removed;
    removed = {};
    ereport(
        WARNING,
        (errcode(ERRCODE_NO_DATA_FOUND),
         errmsg("outbox relay: " UINT64_FORMAT " events were gone before they were published",
                told.count),
         errdetail("Their rows are not in outbox.events any more, the last in outbox.events_%d; "
                   "numbers (seq) " INT64_FORMAT " to " INT64_FORMAT ".",
                   told.slot, told.first, told.last),
         errhint("TRUNCATE and DELETE remove events for good; the relay empties partitions "
                 "by itself. Rows of rolled-back savepoints that VACUUM removed may be among "
                 "them.")));
}

bool
has_restored_events(EventTables *tables)
{
    bool found = false;
    for (const EventTables::Slot &slot : tables->slots)
    {
        if (slot.index == nullptr || found)
            continue;
        ScanKeyData key;
        set_key(&key, 1, BTLessStrategyNumber, F_INT8LT, 0);
        found = find_row(slot, &key);
    }
    return found;
}

bool
has_events_beyond(EventTables *tables, int slot_number, const XidSnapshot &snapshot)
{
    const EventTables::Slot &slot = tables->slots[slot_number];
    if (slot.index == nullptr)
        return false;
    ScanKeyData key;
    set_key(&key, 1, BTLessStrategyNumber, F_INT8LT, 0);
    bool found = find_row(slot, &key);
    set_key(&key, 1, BTGreaterEqualStrategyNumber, F_INT8GE, static_cast<int64>(snapshot.xmax()));
    found = found || find_row(slot, &key);
    for (size_t i = 0; i < snapshot.running().size() && !found; i++)
        found = has_events_of(tables, slot_number, static_cast<int64>(snapshot.running()[i]));
    return found;
}

bool
has_events_of(EventTables *tables, int slot_number, int64 xid)
{
    const EventTables::Slot &slot = tables->slots[slot_number];
    ScanKeyData key;
    set_key(&key, 1, BTEqualStrategyNumber, F_INT8EQ, xid);
    return slot.index != nullptr && find_row(slot, &key);
}

int64
lowest_xid(EventTables *tables)
{
    int64 lowest = PG_INT64_MAX;
    for (const EventTables::Slot &slot : tables->slots)
    {
        ScanKeyData key;
        set_key(&key, 1, BTGreaterStrategyNumber, F_INT8GT, 0);
        if (slot.index == nullptr || !find_row(slot, &key))
            continue;
        slot_getallattrs(slot.row);
        lowest = Min(lowest, DatumGetInt64(Columns{slot}.value(kXid)));
    }
    return lowest;
}

Locator
make_locator(int slot, const ItemPointerData *place)
{
    return static_cast<uint64>(slot) << 56 |
           static_cast<uint64>(ItemPointerGetBlockNumber(place)) << 16 |
           ItemPointerGetOffsetNumber(place);
}

int
slot_of(Locator locator)
{
    return static_cast<int>(locator >> 56);
}

} // namespace outbox
