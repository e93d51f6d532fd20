// Reads the index entries of a window: which events there are, in order, and where their rows are.
#pragma once

#include "bgworker/engine/common/window_keys.h"
#include "bgworker/engine/common/xid_snapshot.h"

#include "event_tables.h"

namespace outbox
{

// The snapshot of the current transaction, in 64-bit form. May raise an error.
void take_snapshot(XidSnapshot *snapshot);

// Runs the scan that `keys` needs. Raises *commit_lsn to the last commit record that may not be
// flushed yet, of all transactions met, and *largest_seq to the largest number met. Returns false
// when a shutdown was requested meanwhile.
bool scan_keys(EventTables *tables, WindowKeys *keys, XLogRecPtr *commit_lsn, int64 *largest_seq);

// A row's place: partition, block, offset.
Locator make_locator(int slot, const ItemPointerData *place);
int slot_of(Locator locator);

} // namespace outbox
