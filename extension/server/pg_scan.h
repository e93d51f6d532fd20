// Scans of indexes and blocks, whatever PostgreSQL's version.
#pragma once

#include "pg.h"

namespace outbox
{

inline IndexScanDesc
begin_index_scan(Relation table, Relation index, Snapshot snapshot, int keys)
{
#if PG_VERSION_NUM >= 180000
    return index_beginscan(table, index, snapshot, nullptr, keys, 0);
#else
    return index_beginscan(table, index, snapshot, keys, 0);
#endif
}

// A scan of the rows in one block, which the table must have.
inline TableScanDesc
begin_block_scan(Relation table, Snapshot snapshot, BlockNumber block)
{
#if PG_VERSION_NUM >= 140000
    ItemPointerData first;
    ItemPointerData last;
    ItemPointerSet(&first, block, FirstOffsetNumber);
    ItemPointerSet(&last, block, MaxOffsetNumber);
    return table_beginscan_tidrange(table, snapshot, &first, &last);
#else
    TableScanDesc scan = table_beginscan_strat(table, snapshot, 0, nullptr, true, false);
    heap_setscanlimits(scan, block, 1);
    return scan;
#endif
}

inline bool
next_of_block(TableScanDesc scan, TupleTableSlot *slot)
{
#if PG_VERSION_NUM >= 140000
    return table_scan_getnextslot_tidrange(scan, ForwardScanDirection, slot);
#else
    return table_scan_getnextslot(scan, ForwardScanDirection, slot);
#endif
}

} // namespace outbox
