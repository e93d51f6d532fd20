#include "event_reader.h"

#include "bgworker/guard.h"

#include "extension/text_view.h"

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

Oid
relation_named(Oid schema, const char *pattern, int slot)
{
    char name[NAMEDATALEN];
    snprintf(name, sizeof(name), pattern, slot);
    return get_relname_relid(name, schema);
}

OpenResult
open_slot(EventTables *tables, Oid schema, int number)
{
    const Oid table = relation_named(schema, "events_%d", number);
    const OpenResult result = lock_relation(table, AccessShareLock);
    if (result != OpenResult::opened)
        return result;
    EventTables::Slot &slot = tables->slots[number];
    slot.table = table_open(table, NoLock);
    if (RelationGetNumberOfBlocks(slot.table) == 0)
        return OpenResult::opened;
    const Oid index = relation_named(schema, "events_%d_xid_seq", number);
    if (!OidIsValid(index))
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
                        errmsg("index outbox.events_%d_xid_seq does not exist", number),
                        errhint("The relay needs it: drop and create the extension again, or "
                                "create the index on (xid, seq).")));
    slot.index = index_open(index, AccessShareLock);
    slot.fetch = table_index_fetch_begin(slot.table);
    slot.row = table_slot_create(slot.table, nullptr);
    return OpenResult::opened;
}

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
    const TransactionId short_xid = static_cast<TransactionId>(xid);
    // The status of very old transactions is gone, and with it any doubt about their durability.
    if (!TransactionIdIsNormal(short_xid) || TransactionIdPrecedes(short_xid, oldest_known_xid()))
        return;
    // Not TransactionIdGetCommitLSN(): what that remembers of this id may be older than the commits
    // of its neighbours.
    XLogRecPtr lsn = InvalidXLogRecPtr;
    (void) TransactionIdGetStatus(short_xid, &lsn);
    if (lsn > log->latest)
        log->latest = lsn;
}

// Returns false when a shutdown was requested, or `keys` has no place left.
bool
scan_range(const EventTables::Slot &slot, const IndexRange &range, WindowKeys *keys, CommitLog *log)
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

Datum
column(TupleTableSlot *row, EventColumn number)
{
    return row->tts_values[number - 1];
}

bool
is_null(TupleTableSlot *row, EventColumn number)
{
    return row->tts_isnull[number - 1];
}

text *
text_column(TupleTableSlot *row, EventColumn number)
{
    return is_null(row, number) ? nullptr : DatumGetTextPP(column(row, number));
}

Jsonb *
jsonb_column(TupleTableSlot *row, EventColumn number)
{
    return is_null(row, number) ? nullptr : DatumGetJsonbP(column(row, number));
}

void
read_columns(TupleTableSlot *row, EventRow *event)
{
    slot_getallattrs(row);
    event->seq = DatumGetInt64(column(row, kSeq));
    event->xid = DatumGetInt64(column(row, kXid));
    event->created_at = DatumGetTimestampTz(column(row, kCreatedAt));
    event->id = DatumGetUUIDP(column(row, kId));
    event->has_schema_version = !is_null(row, kSchemaVersion);
    event->schema_version =
        event->has_schema_version ? DatumGetInt32(column(row, kSchemaVersion)) : 0;
    event->aggregate_type = text_column(row, kAggregateType);
    event->aggregate_id = text_column(row, kAggregateId);
    event->event_type = text_column(row, kEventType);
    event->partition_key = text_column(row, kPartitionKey);
    event->payload = jsonb_column(row, kPayload);
    event->payload_bytes = reinterpret_cast<bytea *>(text_column(row, kPayloadBytes));
    event->headers = jsonb_column(row, kHeaders);
}

} // namespace

OpenResult
open_events(EventTables *tables)
{
    memset(tables, 0, sizeof(*tables));
    const Oid schema = get_namespace_oid("outbox", true);
    if (!OidIsValid(schema))
        return OpenResult::missing;
    OpenResult result = lock_relation(get_relname_relid("relay_position", schema), AccessShareLock);
    for (int slot = 0; slot < kRingSlots && result == OpenResult::opened; slot++)
        result = open_slot(tables, schema, slot);
    return result;
}

void
close_events(EventTables *tables)
{
    for (EventTables::Slot &slot : tables->slots)
    {
        if (slot.fetch != nullptr)
            table_index_fetch_end(slot.fetch);
        if (slot.row != nullptr)
            ExecDropSingleTupleTableSlot(slot.row);
        if (slot.index != nullptr)
            index_close(slot.index, NoLock);
        if (slot.table != nullptr)
            table_close(slot.table, NoLock);
        slot = {};
    }
}

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
scan_keys(EventTables *tables, WindowKeys *keys, XLogRecPtr *commit_lsn)
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
            !scan_range(slot, range, keys, &log))
            return false;
    }
    *commit_lsn = log.latest;
    call_cpp([&] { keys->finish_scan(); });
    return true;
}

bool
fetch_event(EventTables *tables, const EventKey *key, EventRow *event)
{
    EventTables::Slot &slot = tables->slots[slot_of(key->locator)];
    if (slot.fetch == nullptr)
        return false;
    ItemPointerData place;
    ItemPointerSet(&place, static_cast<BlockNumber>(key->locator >> 16),
                   static_cast<OffsetNumber>(key->locator & 0xffff));
    bool again = false;
    bool all_dead = false;
    if (!table_index_fetch_tuple(slot.fetch, &place, GetActiveSnapshot(), slot.row, &again,
                                 &all_dead))
        return false;
    read_columns(slot.row, event);
    // The place of a rolled-back row may have been given to another one.
    return event->seq == key->seq;
}

bool
find_event(EventTables *tables, int slot_number, int64 xid, int64 seq, EventRow *event)
{
    const EventTables::Slot &slot = tables->slots[slot_number];
    if (slot.index == nullptr)
        return false;
    ScanKeyData keys[3];
    const uint64 transaction = static_cast<uint64>(xid);
    const int count = set_keys(keys, {slot_number, {transaction, seq}, {transaction, seq}});
    IndexScanDesc scan = begin_index_scan(slot.table, slot.index, GetActiveSnapshot(), count);
    index_rescan(scan, keys, count, nullptr, 0);
    bool found = false;
    ItemPointer place;
    while (!found && (place = index_getnext_tid(scan, ForwardScanDirection)) != nullptr)
    {
        const EventKey key = {seq, make_locator(slot_number, place)};
        found = fetch_event(tables, &key, event);
    }
    index_endscan(scan);
    return found;
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
        lowest = Min(lowest, DatumGetInt64(column(slot.row, kXid)));
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

std::string_view
key_of(const EventRow &event)
{
    return text_view(event.partition_key != nullptr ? event.partition_key : event.aggregate_id);
}

} // namespace outbox
