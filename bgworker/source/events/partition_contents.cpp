#include "partition_contents.h"

#include "event_index.h"

#include "extension/server/pg_scan.h"

namespace outbox
{

namespace
{

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
event_value(const EventTables::Slot &slot, EventColumn column)
{
    return slot.row->tts_values[slot.columns[column - 1] - 1];
}

} // namespace

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
        lowest = Min(lowest, DatumGetInt64(event_value(slot, kXid)));
    }
    return lowest;
}

} // namespace outbox
