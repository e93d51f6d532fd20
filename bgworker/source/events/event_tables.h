// The ring's tables as the relay reads them.
#pragma once

#include "bgworker/source/relation_lock.h"

#include "extension/emit/event_table.h"

namespace outbox
{

// The ring's tables, opened for one transaction.
struct EventTables
{
    struct Slot
    {
        Relation table; // null: not opened
        Relation index; // null: the partition is empty for the snapshot, or not opened
        IndexFetchTableData *fetch;
        TupleTableSlot *row;
        BlockNumber blocks;                // what the snapshot sees is in these
        AttrNumber columns[kEventColumns]; // where each of EventColumn is in this partition
    };
    Slot slots[kRingSlots];
};

// Opens the tables without waiting for a lock, and takes a fresh snapshot then: one from before the
// locks may not see what a rewritten table holds. To be called first in a transaction.
OpenResult open_events(EventTables *tables);

// The relay empties a partition itself, so its truncation is not reported.
void expect_truncation(int slot) noexcept;

// Closes them; the locks go with the transaction.
void close_events(EventTables *tables);

} // namespace outbox
