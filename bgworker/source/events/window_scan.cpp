#include "window_scan.h"

#include "bgworker/guard.h"

#include "commit_status.h"
#include "event_index.h"

#include "extension/server/pg_scan.h"

namespace outbox
{

namespace
{

constexpr int kInterruptInterval = 4096;

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
            add_commit(log, point.xid);
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
                 errdetail("The relay restarts from its position.")));
    return more;
}

// The highest transaction id in the partition's index, rolled-back rows included. Most partitions
// of the ring end before a window begins, and a window has as many ranges as there are running
// transactions.
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
