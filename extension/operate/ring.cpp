// Which partition new events go to, as backends learn it.

#include "extension/shared/shared_state.h"
#include "extension/trust/own_relations.h"

namespace outbox
{

namespace
{

// Columns of outbox.ring, as attribute numbers; sql/ring.sql is the other side.
constexpr int kRingSlot = 1;
constexpr int kRingIsCurrent = 2;

bool
is_slot(int number)
{
    return number >= 0 && number < kRingSlots;
}

} // namespace

int
current_slot()
{
    DatabaseSlot *slot = own_slot();
    const int known =
        slot == nullptr ? -1 : static_cast<int>(pg_atomic_read_u32(&slot->ring_slot)) - 1;
    return is_slot(known) ? known : stored_slot();
}

// Any partition would do for correctness, so a table that is missing or was emptied means the
// first.
int
stored_slot()
{
    const Oid table = find_own_relation("ring");
    if (!OidIsValid(table))
        return 0;
    Relation relation = table_open(table, AccessShareLock);
    const bool has_snapshot = ActiveSnapshotSet();
    if (!has_snapshot)
        PushActiveSnapshot(GetTransactionSnapshot());
    TableScanDesc scan = table_beginscan(relation, GetActiveSnapshot(), 0, nullptr);
    TupleTableSlot *row = table_slot_create(relation, nullptr);
    int current = 0;
    while (table_scan_getnextslot(scan, ForwardScanDirection, row))
    {
        bool is_null;
        if (DatumGetBool(slot_getattr(row, kRingIsCurrent, &is_null)))
            current = DatumGetInt16(slot_getattr(row, kRingSlot, &is_null));
    }
    ExecDropSingleTupleTableSlot(row);
    table_endscan(scan);
    if (!has_snapshot)
        PopActiveSnapshot();
    table_close(relation, AccessShareLock);
    return is_slot(current) ? current : 0;
}

} // namespace outbox
