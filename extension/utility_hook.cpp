#include "utility_hook.h"

#include "shared_state.h"

#include <csignal>

extern "C"
{
#include "nodes/parsenodes.h"
}

namespace outbox
{

namespace
{

ProcessUtility_hook_type previous_hook = nullptr;

// The database that a command wants to itself, or InvalidOid. PostgreSQL waits five seconds for
// other sessions to leave and does not ask background workers to.
Oid
database_to_vacate(Node *command)
{
    switch (nodeTag(command))
    {
    case T_DropdbStmt:
        return get_database_oid(castNode(DropdbStmt, command)->dbname, true);
    case T_RenameStmt:
    {
        RenameStmt *rename = castNode(RenameStmt, command);
        return rename->renameType == OBJECT_DATABASE ? get_database_oid(rename->subname, true)
                                                     : InvalidOid;
    }
    case T_AlterDatabaseStmt:
    {
        AlterDatabaseStmt *alter = castNode(AlterDatabaseStmt, command);
        ListCell *cell;
        foreach (cell, alter->options)
            if (strcmp(lfirst_node(DefElem, cell)->defname, "tablespace") == 0)
                return get_database_oid(alter->dbname, true);
        return InvalidOid;
    }
    case T_CreatedbStmt:
    {
        CreatedbStmt *create = castNode(CreatedbStmt, command);
        ListCell *cell;
        foreach (cell, create->options)
        {
            DefElem *option = lfirst_node(DefElem, cell);
            if (strcmp(option->defname, "template") == 0 && option->arg != nullptr)
                return get_database_oid(strVal(option->arg), true);
        }
        return InvalidOid;
    }
    default:
        return InvalidOid;
    }
}

// Null where no relay is in the way, and for a user who may not do that to the database anyway.
DatabaseSlot *
slot_to_vacate(Node *command)
{
    if (shared_state() == nullptr)
        return nullptr;
    const Oid database = database_to_vacate(command);
    if (!OidIsValid(database) || !owns_database(database, GetUserId()))
        return nullptr;
    return find_slot(database);
}

// Of this session's transaction.
bool holds_slots = false;
bool changed_databases = false;

// Stops the relay of the slot's database, and keeps the launcher from starting another one until
// the transaction has ended: only then is the database visibly gone. The launcher ends the hold of
// a backend that died. A relay that is just starting either finds the hold, or is found here.
void
vacate(DatabaseSlot *slot)
{
    pg_atomic_write_u32(&slot->held_by, static_cast<uint32>(MyProcPid));
    holds_slots = true;
    pg_memory_barrier();
    end_relay(slot);
}

// A prepared transaction that renames a database keeps everybody out by itself.
void
release_at_end(XactEvent event, void *)
{
    if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT && event != XACT_EVENT_PREPARE)
        return;
    if (holds_slots)
        for (DatabaseSlot &slot : shared_state()->slots)
            if (pg_atomic_read_u32(&slot.held_by) == static_cast<uint32>(MyProcPid))
            {
                pg_atomic_write_u32(&slot.held_by, 0);
                pg_atomic_write_u32(&slot.look_again, 1);
            }
    if (holds_slots || changed_databases)
        wake_launcher();
    holds_slots = false;
    changed_databases = false;
}

void
on_utility(PlannedStmt *statement, const char *query,
           OUTBOX_UTILITY_TREE ProcessUtilityContext context, ParamListInfo params,
           QueryEnvironment *environment, DestReceiver *destination, QueryCompletion *completion)
{
    Node *command = statement->utilityStmt;
    const bool commit_prepared =
        IsA(command, TransactionStmt) &&
        castNode(TransactionStmt, command)->kind == TRANS_STMT_COMMIT_PREPARED;
    DatabaseSlot *slot = slot_to_vacate(command);

    if (IsA(command, CreatedbStmt) || IsA(command, AlterDatabaseStmt))
        changed_databases = true;
    if (slot != nullptr)
        vacate(slot);
    (previous_hook != nullptr ? previous_hook : standard_ProcessUtility)(
        statement, query, OUTBOX_UTILITY_SAME_TREE context, params, environment, destination,
        completion);

    if (commit_prepared)
    {
        // What it did is not known here: it may have emitted, retried, paused.
        DatabaseSlot *mine = find_slot(MyDatabaseId);
        if (mine != nullptr)
        {
            pg_atomic_write_u32(&mine->deliveries_changed, 1);
            wake_relay(mine);
        }
    }
}

} // namespace

void
install_utility_hook()
{
    previous_hook = ProcessUtility_hook;
    ProcessUtility_hook = on_utility;
    RegisterXactCallback(release_at_end, nullptr);
}

} // namespace outbox
