#include "kept_table.h"

#include "extension/server/pg_hooks.h"

namespace outbox
{

namespace
{

// A statement that the executor is at: on the stack of its run, and gone with it. What it keeps
// open belongs to its resource owner, which outlives the run: after an error the owner closes it.
struct Statement
{
    Statement *outer;
    ResourceOwner owner;
    Oid asked_for;  // by the last event
    Oid not_plain;  // no use in trying this one again
    KeptTable kept; // none while its table is null
};

Statement *innermost = nullptr;
ExecutorRun_hook_type previous_hook = nullptr;

// Under the owner by which it was opened.
void
close(Statement *statement)
{
    KeptTable &kept = statement->kept;
    if (kept.table == nullptr)
        return;
    const ResourceOwner caller = CurrentResourceOwner;
    CurrentResourceOwner = statement->owner;
    close_indexes(&kept.indexes);
    ExecDropSingleTupleTableSlot(kept.row);
    table_close(kept.table, NoLock);
    CurrentResourceOwner = caller;
    MemoryContextDelete(kept.context);
    kept = {};
}

// Returns false, and has nothing open, when the row needs more than a plain insertion. Whatever
// raises an error in here is closed by the resource owner.
bool
open(KeptTable *kept, Oid oid)
{
    Relation table = table_open(oid, RowExclusiveLock);
    require_usable(table);
    OpenIndexes indexes;
    const uint64 changes = layout_changes();
    const EventLayout layout = event_layout(table);
    MemoryContext context =
        AllocSetContextCreate(CurTransactionContext, "outbox kept table", ALLOCSET_SMALL_SIZES);
    MemoryContext caller = MemoryContextSwitchTo(context);
    const bool plain = layout.plain && open_indexes(table, &indexes);
    TupleTableSlot *row =
        plain ? MakeSingleTupleTableSlot(RelationGetDescr(table), &TTSOpsHeapTuple) : nullptr;
    (void) MemoryContextSwitchTo(caller);
    if (plain)
        *kept = {table, layout, changes, indexes, row, context, false};
    else
    {
        table_close(table, NoLock);
        MemoryContextDelete(context);
    }
    return plain;
}

void
run(QueryDesc *query, ScanDirection direction, uint64 count OUTBOX_EXECUTE_ONCE)
{
    (previous_hook != nullptr ? previous_hook : standard_ExecutorRun)(
        query, direction, count OUTBOX_SAME_EXECUTE_ONCE);
}

void
on_run(QueryDesc *query, ScanDirection direction, uint64 count OUTBOX_EXECUTE_ONCE)
{
    // A statement of a function is a part of the one that calls it.
    if (innermost != nullptr && innermost->owner == CurrentResourceOwner)
        return run(query, direction, count OUTBOX_SAME_EXECUTE_ONCE);
    Statement mine = {};
    mine.outer = innermost;
    mine.owner = CurrentResourceOwner;
    innermost = &mine;
    PG_TRY();
    {
        run(query, direction, count OUTBOX_SAME_EXECUTE_ONCE);
        close(&mine);
    }
    PG_FINALLY();
    {
        innermost = mine.outer;
    }
    PG_END_TRY();
}

} // namespace

KeptTable *
kept_table(Oid table)
{
    // In a subtransaction locks and references would end earlier than the statement.
    if (innermost == nullptr || innermost->owner != CurrentResourceOwner)
        return nullptr;
    KeptTable &kept = innermost->kept;
    if (kept.busy)
        return nullptr;
    if (kept.table != nullptr &&
        (RelationGetRelid(kept.table) != table || kept.changes != layout_changes()))
        close(innermost);
    if (kept.table != nullptr)
        return &kept;
    const bool again = innermost->asked_for == table;
    innermost->asked_for = table;
    if (!again || innermost->not_plain == table)
        return nullptr;
    if (!open(&kept, table))
        innermost->not_plain = table;
    return kept.table != nullptr ? &kept : nullptr;
}

void
close_kept_tables()
{
    for (Statement *statement = innermost; statement != nullptr; statement = statement->outer)
        close(statement);
}

void
install_statement_hook()
{
    previous_hook = ExecutorRun_hook;
    ExecutorRun_hook = on_run;
}

} // namespace outbox
