#include "utility_hook.h"

#include "extension/consume/commit_guard.h"
#include "extension/consume/session_changes.h"
#include "extension/emit/kept_table.h"
#include "extension/emit/prepared.h"
#include "extension/server/pg_hooks.h"
#include "extension/shared/subscription_slots.h"

#include <csignal>

extern "C"
{
#include "catalog/pg_authid.h"
#include "commands/defrem.h"
#include "nodes/parsenodes.h"
}

namespace outbox
{

namespace
{

ProcessUtility_hook_type previous_hook = nullptr;

// Finds the option of that name; null when it is missing or DEFAULT. False when it is given twice,
// which PostgreSQL refuses.
bool
find_option(List *options, const char *name, DefElem **found)
{
    *found = nullptr;
    bool met = false;
    ListCell *cell;
    foreach (cell, options)
    {
        DefElem *option = lfirst_node(DefElem, cell);
        if (strcmp(option->defname, name) != 0)
            continue;
        if (met)
            return false;
        met = true;
        *found = option->arg != nullptr ? option : nullptr;
    }
    return true;
}

// What a command would need for itself. The hook sees it before PostgreSQL has looked at anything:
// the values have every type that the grammar allows, and the user may not have the right to it.
struct Vacation
{
    const char *database; // null: the command needs none
    bool creates;         // or gives a new name: needs CREATEDB
    bool may_be_own;      // the command works in that database, too
    bool in_transaction;  // the command works in a transaction block
};

Vacation
wanted_by(Node *command)
{
    DefElem *option = nullptr;
    switch (nodeTag(command))
    {
    case T_DropdbStmt:
        return {castNode(DropdbStmt, command)->dbname, false, false, false};
    case T_RenameStmt:
    {
        RenameStmt *rename = castNode(RenameStmt, command);
        if (rename->renameType != OBJECT_DATABASE)
            return {};
        return {rename->subname, true, false, true};
    }
    case T_AlterDatabaseStmt:
    {
        AlterDatabaseStmt *alter = castNode(AlterDatabaseStmt, command);
        if (!find_option(alter->options, "tablespace", &option) || option == nullptr)
            return {};
        return {alter->dbname, false, false, false};
    }
    case T_CreatedbStmt:
    {
        if (!find_option(castNode(CreatedbStmt, command)->options, "template", &option))
            return {};
        // A number is the name of a database as well.
        return {option != nullptr ? defGetString(option) : "template1", true, true, false};
    }
    default:
        return {};
    }
}

bool
may_create_databases()
{
    if (superuser())
        return true;
    HeapTuple row = SearchSysCache1(AUTHOID, ObjectIdGetDatum(GetUserId()));
    if (!HeapTupleIsValid(row))
        return false;
    const bool may = reinterpret_cast<Form_pg_authid>(GETSTRUCT(row))->rolcreatedb;
    ReleaseSysCache(row);
    return may;
}

// The entry of the database that the command wants to itself: PostgreSQL waits five seconds for
// other sessions to leave, and does not ask background workers to. Null where no relay is in the
// way, and for a command that PostgreSQL will refuse: to stop a relay needs the same rights.
DatabaseSlot *
slot_to_vacate(Node *command, ProcessUtilityContext context)
{
    if (shared_state() == nullptr)
        return nullptr;
    const Vacation wanted = wanted_by(command);
    if (wanted.database == nullptr)
        return nullptr;
    if (!wanted.in_transaction && IsInTransactionBlock(context == PROCESS_UTILITY_TOPLEVEL))
        return nullptr;
    const Oid database = get_database_oid(wanted.database, true);
    if (!OidIsValid(database) || (database == MyDatabaseId && !wanted.may_be_own))
        return nullptr;
    if (!owns_database(database, GetUserId()) || (wanted.creates && !may_create_databases()))
        return nullptr;
    return find_slot(database);
}

// The subtransaction of this session in which it began to hold the entry of the same number.
SubTransactionId held_since[kMaxDatabases];
bool holds_slots = false;
bool changed_databases = false;

// Stops the relay of the entry's database, and keeps the launcher from starting another one until
// the (sub)transaction has ended: only then is the database visibly gone. The launcher ends the
// hold of a backend that died. A relay that is just starting either finds the hold, or is found
// here.
void
vacate(DatabaseSlot *slot)
{
    SubTransactionId &since = held_since[slot - shared_state()->slots];
    if (since == InvalidSubTransactionId)
        since = GetCurrentSubTransactionId();
    holds_slots = true;
    pg_atomic_write_u32(&slot->held_by, static_cast<uint32>(MyProcPid));
    pg_memory_barrier();
    for_each_relay(*slot, [](RelayEntry &relay) { end_relay(&relay); });
}

// Ids of subtransactions only grow, so those of an aborted one and of its children are `first` and
// later ones.
void
release_since(SubTransactionId first)
{
    if (!holds_slots)
        return;
    holds_slots = false;
    for (int i = 0; i < kMaxDatabases; i++)
    {
        DatabaseSlot &slot = shared_state()->slots[i];
        if (held_since[i] < first)
        {
            holds_slots = holds_slots || held_since[i] != InvalidSubTransactionId;
            continue;
        }
        held_since[i] = InvalidSubTransactionId;
        if (pg_atomic_read_u32(&slot.held_by) != static_cast<uint32>(MyProcPid))
            continue;
        pg_atomic_write_u32(&slot.held_by, 0);
        pg_atomic_write_u32(&slot.relay_wanted, 1);
    }
    wake_launcher();
}

// A prepared transaction that renames a database keeps everybody out by itself.
void
release_at_end(XactEvent event, void *)
{
    if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT && event != XACT_EVENT_PREPARE)
        return;
    release_since(TopSubTransactionId);
    if (changed_databases)
        wake_launcher();
    changed_databases = false;
}

void
release_at_rollback(SubXactEvent event, SubTransactionId mine, SubTransactionId, void *)
{
    if (event == SUBXACT_EVENT_ABORT_SUB)
        release_since(mine);
}

// After COMMIT PREPARED. What else it did is not known here: it may have retried or paused.
void
wake_own_relay()
{
    DatabaseSlot *mine = find_slot(MyDatabaseId);
    if (mine != nullptr)
        for_each_relay(*mine, [](RelayEntry &relay)
                       { tell_of_deliveries(&relay, kDeliveriesPerhapsChanged); });
}

void
on_utility(PlannedStmt *statement, const char *query,
           OUTBOX_UTILITY_TREE ProcessUtilityContext context, ParamListInfo params,
           QueryEnvironment *environment, DestReceiver *destination, QueryCompletion *completion)
{
    close_kept_tables();
    Node *command = statement->utilityStmt;
    record_command(command);
    const bool handler_ends = context == PROCESS_UTILITY_TOPLEVEL && begins_next_handler(command);
    const TransactionStmt *transaction =
        IsA(command, TransactionStmt) ? castNode(TransactionStmt, command) : nullptr;
    const bool commits_prepared =
        transaction != nullptr && transaction->kind == TRANS_STMT_COMMIT_PREPARED;
    const bool ends_prepared =
        commits_prepared ||
        (transaction != nullptr && transaction->kind == TRANS_STMT_ROLLBACK_PREPARED);
    const bool changes = IsA(command, CreatedbStmt) || IsA(command, AlterDatabaseStmt);

    PreparedCount *prepared = ends_prepared ? find_prepared(transaction->gid) : nullptr;
    if (transaction != nullptr && transaction->kind == TRANS_STMT_PREPARE)
        expect_prepare(transaction->gid);
    DatabaseSlot *slot = slot_to_vacate(command, context);
    if (slot != nullptr)
        vacate(slot);
    (previous_hook != nullptr ? previous_hook : standard_ProcessUtility)(
        statement, query, OUTBOX_UTILITY_SAME_TREE context, params, environment, destination,
        completion);

    changed_databases = changed_databases || changes;
    if (handler_ends && commit_is_refused())
        finish_handler();
    if (prepared != nullptr)
        forget_prepared(prepared, commits_prepared);
    if (commits_prepared)
        wake_own_relay();
}

} // namespace

void
install_utility_hook()
{
    previous_hook = ProcessUtility_hook;
    ProcessUtility_hook = on_utility;
    RegisterXactCallback(release_at_end, nullptr);
    RegisterSubXactCallback(release_at_rollback, nullptr);
}

} // namespace outbox
