#include "event_tables.h"

#include "bgworker/source/subscription.h"

#include "extension/emit/event_layout.h"
#include "extension/server/pg_scan.h"
#include "extension/shared/shared_state.h"

extern "C"
{
#include "access/nbtree.h"
#include "catalog/pg_am.h"
#include "catalog/pg_index.h"
#include "utils/fmgroids.h"
}

namespace outbox
{

namespace
{

Oid
partition_of(Oid schema, int slot)
{
    char name[NAMEDATALEN];
    snprintf(name, sizeof(name), "events_%d", slot);
    const Oid table = get_relname_relid(name, schema);
    // The lock on outbox.relay_position says that the extension is there.
    if (!OidIsValid(table))
        ereport(ERROR,
                (errcode(ERRCODE_UNDEFINED_TABLE), errmsg("table outbox.%s does not exist", name),
                 errhint("It is a partition of outbox.events. Give it its name back.")));
    return table;
}

bool
is_btree(Oid index)
{
    HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(index));
    if (!HeapTupleIsValid(tuple))
        return false;
    const bool btree = reinterpret_cast<Form_pg_class>(GETSTRUCT(tuple))->relam == BTREE_AM_OID;
    ReleaseSysCache(tuple);
    return btree;
}

// Whether an index finds events by (xid, seq), in that order, all of them.
bool
finds_events(Oid index, const AttrNumber *columns)
{
    if (!is_btree(index))
        return false;
    HeapTuple tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(index));
    if (!HeapTupleIsValid(tuple))
        return false;
    const Form_pg_index form = reinterpret_cast<Form_pg_index>(GETSTRUCT(tuple));
    bool is_null;
    const Datum options = SysCacheGetAttr(INDEXRELID, tuple, Anum_pg_index_indoption, &is_null);
    const int2vector *order = reinterpret_cast<int2vector *>(DatumGetPointer(options));
    const bool good = form->indisvalid && form->indisready && form->indnkeyatts >= 2 &&
                      form->indkey.values[0] == columns[kXid - 1] &&
                      form->indkey.values[1] == columns[kSeq - 1] && order->values[0] == 0 &&
                      order->values[1] == 0 &&
                      heap_attisnull(tuple, Anum_pg_index_indpred, nullptr);
    ReleaseSysCache(tuple);
    return good;
}

// Not by its name: REINDEX CONCURRENTLY and operators make others, and one that is being built, or
// that could not be, does not hold all events.
Oid
find_index(const EventTables::Slot &slot)
{
    Oid found = InvalidOid;
    List *indexes = RelationGetIndexList(slot.table);
    for (int i = 0; i < list_length(indexes) && !OidIsValid(found); i++)
        if (finds_events(list_nth_oid(indexes, i), slot.columns))
            found = list_nth_oid(indexes, i);
    list_free(indexes);
    return found;
}

OpenResult
open_index(EventTables::Slot *slot, int number)
{
    const Oid index = find_index(*slot);
    if (!OidIsValid(index))
        ereport(ERROR,
                (errcode(ERRCODE_UNDEFINED_OBJECT),
                 errmsg("outbox.events_%d has no usable index on (xid, seq)", number),
                 errdetail("Nothing is published without it."),
                 errhint("Create it again: create index events_%d_xid_seq on outbox.events_%d "
                         "(xid, seq); or REINDEX it.",
                         number, number)));
    const OpenResult result = lock_relation(index, AccessShareLock);
    // It may just have been replaced.
    if (result != OpenResult::opened)
        return OpenResult::locked;
    slot->index = index_open(index, NoLock);
    slot->fetch = table_index_fetch_begin(slot->table);
    slot->row = table_slot_create(slot->table, nullptr);
    return OpenResult::opened;
}

// What each partition's table was when it was opened last, and one of its rows; no other rewrite of
// the table removes that.
struct Seen
{
    Oid table; // another one is there when the extension was made anew
    Oid file;
    bool had_rows;
    bool knows_row;
    int64 xid;
    int64 seq;
};
Seen seen[kRingSlots];

// Of the first entries that the keys select, one whose row is visible.
bool
find_visible(const EventTables::Slot &slot, ScanKeyData *keys, int count, int64 *xid, int64 *seq)
{
    // Those of what is not committed yet may be many.
    constexpr int kMostEntries = 16;
    IndexScanDesc scan = begin_index_scan(slot.table, slot.index, GetActiveSnapshot(), count);
    scan->xs_want_itup = true;
    index_rescan(scan, keys, count, nullptr, 0);
    bool found = false;
    for (int i = 0; i < kMostEntries && !found; i++)
    {
        if (index_getnext_tid(scan, ForwardScanDirection) == nullptr)
            break;
        bool is_null;
        *xid = DatumGetInt64(index_getattr(scan->xs_itup, 1, scan->xs_itupdesc, &is_null));
        *seq = DatumGetInt64(index_getattr(scan->xs_itup, 2, scan->xs_itupdesc, &is_null));
        found = index_fetch_heap(scan, slot.row);
    }
    ExecClearTuple(slot.row);
    index_endscan(scan);
    return found;
}

bool
has_row(const EventTables::Slot &slot, int64 xid, int64 seq)
{
    ScanKeyData keys[2];
    ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(xid));
    ScanKeyInit(&keys[1], 2, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(seq));
    int64 found_xid;
    int64 found_seq;
    return find_visible(slot, keys, 2, &found_xid, &found_seq);
}

// Not a restored one, whose numbers will change.
bool
find_any_row(const EventTables::Slot &slot, int64 *xid, int64 *seq)
{
    ScanKeyData key;
    ScanKeyInit(&key, 1, BTGreaterStrategyNumber, F_INT8GT, Int64GetDatum(0));
    return find_visible(slot, &key, 1, xid, seq);
}

// Warns of a truncation that is not the relay's, which knows what is published: that of `default`,
// as the others do not hear of its own. The index is open unless the table has no rows.
void
report_truncation(const EventTables::Slot &slot, int number)
{
    if (!serves_default())
        return;
    Seen &before = seen[number];
    if (before.table != RelationGetRelid(slot.table))
        before = {RelationGetRelid(slot.table), InvalidOid, false, false, 0, 0};
    const Oid file = slot.table->rd_rel->relfilenode;
    const bool has_rows = slot.index != nullptr;
    const bool other_file = before.had_rows && before.file != file;
    const bool emptied =
        other_file && (!has_rows || (before.knows_row && !has_row(slot, before.xid, before.seq)));
    before.knows_row = before.knows_row && has_rows && !emptied;
    before.file = file;
    before.had_rows = has_rows;
    if (has_rows && !before.knows_row)
        before.knows_row = find_any_row(slot, &before.xid, &before.seq);
    if (!emptied)
        return;
    DatabaseSlot *database = find_slot(MyDatabaseId);
    ereport(WARNING,
            (errmsg("outbox.events_%d was truncated, and not by the relay", number),
             errdetail("Events in it that were not published are lost: at most " INT64_FORMAT
                       ", as many as waited in all partitions.",
                       database != nullptr ? backlog_of(database) : 0),
             errhint("The relay empties partitions by itself, see outbox.retention.")));
}

OpenResult
open_table(EventTables *tables, Oid schema, int number)
{
    const Oid table = partition_of(schema, number);
    const OpenResult result = lock_relation(table, AccessShareLock);
    if (result != OpenResult::opened)
        return result;
    EventTables::Slot &slot = tables->slots[number];
    slot.table = table_open(table, NoLock);
    memcpy(slot.columns, event_layout(slot.table).place, sizeof(slot.columns));
    return OpenResult::opened;
}

OpenResult
open_slot(EventTables *tables, int number)
{
    EventTables::Slot &slot = tables->slots[number];
    slot.blocks = RelationGetNumberOfBlocks(slot.table);
    const OpenResult opened = slot.blocks == 0 ? OpenResult::opened : open_index(&slot, number);
    if (opened == OpenResult::opened)
        report_truncation(slot, number);
    return opened;
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
        result = open_table(tables, schema, slot);
    if (result != OpenResult::opened)
        return result;
    PopActiveSnapshot();
    PushActiveSnapshot(GetTransactionSnapshot());
    // Which partitions are empty is asked after the snapshot: into one that was found empty before,
    // events could come that the snapshot sees, and they would never be read.
    for (int slot = 0; slot < kRingSlots && result == OpenResult::opened; slot++)
        result = open_slot(tables, slot);
    return result;
}

void
expect_truncation(int slot) noexcept
{
    seen[slot] = {};
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

} // namespace outbox
