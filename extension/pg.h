// The only place that names PostgreSQL's headers, and the one that hides what differs between its
// versions. Include it after all standard and library headers: it redefines names that those use.
#pragma once

#define OUTBOX_GLUE 1

extern "C"
{
#include "postgres.h"

#include "access/detoast.h"
#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/relscan.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/dependency.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "catalog/pg_type.h"
#include "commands/dbcommands.h"
#include "commands/extension.h"
#include "commands/sequence.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "nodes/makefuncs.h"
#include "parser/parse_func.h"
#include "parser/parse_relation.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "port/pg_bitutils.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/bufmgr.h"
#include "storage/condition_variable.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/shmem.h"
#include "storage/sinvaladt.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/guc_tables.h"
#include "utils/inval.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/numeric.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"
#include "utils/xid8.h"

#if PG_VERSION_NUM >= 150000
#include "common/pg_prng.h"
#endif
#if PG_VERSION_NUM < 140000
#include "catalog/indexing.h"
#endif
}

#if PG_VERSION_NUM < 130000
#error "outbox needs PostgreSQL 13 or newer"
#endif

// For the client's eyes only, from version 14 on.
#if PG_VERSION_NUM < 140000
#define WARNING_CLIENT_ONLY WARNING
#endif

// Declares an SQL-callable function that other than our own code can see: before version 16
// PostgreSQL's macro exports only the function's description.
#define OUTBOX_FUNCTION(name)                                                                      \
    extern PGDLLEXPORT Datum name(PG_FUNCTION_ARGS);                                               \
    PG_FUNCTION_INFO_V1(name)

namespace outbox
{

inline int
my_proc_number()
{
#if PG_VERSION_NUM >= 170000
    return MyProcNumber;
#else
    return MyProc->pgprocno;
#endif
}

// Ids before this one have no commit status any more.
inline TransactionId
oldest_known_xid()
{
#if PG_VERSION_NUM >= 170000
    return TransamVariables->oldestClogXid;
#else
    return ShmemVariableCache->oldestClogXid;
#endif
}

// The object as messages name it.
inline const char *
object_description(Oid catalog, Oid object)
{
    const ObjectAddress address = {catalog, object, 0};
#if PG_VERSION_NUM >= 140000
    const char *text = getObjectDescription(&address, true);
#else
    const char *text = getObjectDescription(&address);
#endif
    return text != nullptr ? text : "an object that is gone";
}

// Superusers own everything.
inline bool
owns_database(Oid database, Oid role)
{
#if PG_VERSION_NUM >= 160000
    return object_ownercheck(DatabaseRelationId, database, role);
#else
    return pg_database_ownercheck(database, role);
#endif
}

inline List *
insert_index_tuples(ResultRelInfo *relation, TupleTableSlot *slot, EState *estate, bool speculative,
                    bool *conflict)
{
#if PG_VERSION_NUM >= 160000
    return ExecInsertIndexTuples(relation, slot, estate, false, speculative, conflict, NIL, false);
#elif PG_VERSION_NUM >= 140000
    return ExecInsertIndexTuples(relation, slot, estate, false, speculative, conflict, NIL);
#else
    estate->es_result_relation_info = relation;
    return ExecInsertIndexTuples(slot, estate, speculative, conflict, NIL);
#endif
}

// Inserts the row's index entries; the table has no unique constraint to be deferred.
inline void
insert_index_entries(ResultRelInfo *relation, TupleTableSlot *slot, EState *estate)
{
    list_free(insert_index_tuples(relation, slot, estate, false, nullptr));
}

// Inserts the row's index entries. False when another row has, or may come to have, the same unique
// key; the entries are there all the same.
inline bool
insert_unique_entries(ResultRelInfo *relation, TupleTableSlot *slot, EState *estate)
{
    bool conflict = false;
    list_free(insert_index_tuples(relation, slot, estate, true, &conflict));
    return !conflict;
}

// Inserts the row as logical replication does: with generated columns, constraints and the triggers
// for rows.
inline void
insert_by_rules(Relation table, TupleTableSlot *row, EState *estate)
{
    RangeTblEntry *entry = makeNode(RangeTblEntry);
    entry->rtekind = RTE_RELATION;
    entry->relid = RelationGetRelid(table);
    entry->relkind = table->rd_rel->relkind;
    entry->rellockmode = RowExclusiveLock;
#if PG_VERSION_NUM >= 160000
    List *permissions = NIL;
    addRTEPermissionInfo(&permissions, entry);
#endif
#if PG_VERSION_NUM >= 180000
    ExecInitRangeTable(estate, list_make1(entry), permissions, bms_make_singleton(1));
#elif PG_VERSION_NUM >= 160000
    ExecInitRangeTable(estate, list_make1(entry), permissions);
#else
    ExecInitRangeTable(estate, list_make1(entry));
#endif
    ResultRelInfo *result = makeNode(ResultRelInfo);
    InitResultRelInfo(result, table, 1, nullptr, 0);
    estate->es_output_cid = GetCurrentCommandId(true);
#if PG_VERSION_NUM >= 140000
    estate->es_opened_result_relations = lappend(estate->es_opened_result_relations, result);
#else
    estate->es_result_relations = result;
    estate->es_num_result_relations = 1;
    estate->es_result_relation_info = result;
#endif
    AfterTriggerBeginQuery();
    ExecOpenIndices(result, false);
#if PG_VERSION_NUM >= 140000
    ExecSimpleRelationInsert(result, estate, row);
#else
    ExecSimpleRelationInsert(estate, row);
#endif
    ExecCloseIndices(result);
    AfterTriggerEndQuery(estate);
    ExecResetTupleTable(estate->es_tupleTable, false);
}

// One entry of an index that is not unique. Index and info keep what is found out for the next
// entry, until end_index_inserts().
inline void
insert_index_entry(Relation index, Datum *values, bool *nulls, ItemPointer place, Relation table,
                   IndexInfo *info)
{
#if PG_VERSION_NUM >= 140000
    (void) index_insert(index, values, nulls, place, table, UNIQUE_CHECK_NO, false, info);
#else
    (void) index_insert(index, values, nulls, place, table, UNIQUE_CHECK_NO, info);
#endif
}

inline void
end_index_inserts(Relation index, IndexInfo *info)
{
#if PG_VERSION_NUM >= 170000
    index_insert_cleanup(index, info);
#else
    (void) index;
    (void) info;
#endif
}

// The wait event of this name, in pg_stat_activity; before version 17 all are called Extension.
inline uint32
named_wait_event(const char *name)
{
#if PG_VERSION_NUM >= 170000
    return WaitEventExtensionNew(name);
#else
    (void) name;
    return PG_WAIT_EXTENSION;
#endif
}

inline WaitEventSet *
create_wait_set(int events)
{
#if PG_VERSION_NUM >= 170000
    return CreateWaitEventSet(nullptr, events);
#else
    return CreateWaitEventSet(TopMemoryContext, events);
#endif
}

inline IndexScanDesc
begin_index_scan(Relation table, Relation index, Snapshot snapshot, int keys)
{
#if PG_VERSION_NUM >= 180000
    return index_beginscan(table, index, snapshot, nullptr, keys, 0);
#else
    return index_beginscan(table, index, snapshot, keys, 0);
#endif
}

// 64 bits that differ from process to process; not for secrets.
inline uint64
random_bits()
{
#if PG_VERSION_NUM >= 150000
    return pg_prng_uint64(&pg_global_prng_state);
#else
    return (static_cast<uint64>(random()) << 62) ^ (static_cast<uint64>(random()) << 31) ^
           static_cast<uint64>(random());
#endif
}

// Writes the number in decimal, with a 0 at its end, and returns its length. Needs 12 bytes.
inline size_t
write_int(int32 value, char *text)
{
#if PG_VERSION_NUM >= 140000
    return static_cast<size_t>(pg_ltoa(value, text));
#else
    pg_ltoa(value, text);
    return strlen(text);
#endif
}

// How many locks this process holds for which `is_meant` is true, each mode counted. Only for locks
// that a process takes for itself: PostgreSQL moves those of tables here on behalf of others.
inline int
count_locks_that(bool (*is_meant)(const LOCKTAG &tag))
{
#if PG_VERSION_NUM >= 160000
    using Link = dlist_node;
#else
    using Link = SHM_QUEUE;
#endif
    int count = 0;
    for (int i = 0; i < NUM_LOCK_PARTITIONS; i++)
    {
#if PG_VERSION_NUM >= 160000
        Link *head = &MyProc->myProcLocks[i].head;
#else
        Link *head = &MyProc->myProcLocks[i];
#endif
        if (head->next == head)
            continue;
        LWLockAcquire(LockHashPartitionLockByIndex(i), LW_SHARED);
        for (Link *at = head->next; at != head; at = at->next)
        {
            const PROCLOCK *held = reinterpret_cast<PROCLOCK *>(reinterpret_cast<char *>(at) -
                                                                offsetof(PROCLOCK, procLink));
            if (is_meant(held->tag.myLock->tag))
                count += pg_popcount32(static_cast<uint32>(held->holdMask));
        }
        LWLockRelease(LockHashPartitionLockByIndex(i));
    }
    return count;
}

// What ExecutorRun hooks are given, to be handed on.
#if PG_VERSION_NUM >= 180000
#define OUTBOX_EXECUTE_ONCE
#define OUTBOX_SAME_EXECUTE_ONCE
#else
#define OUTBOX_EXECUTE_ONCE , bool execute_once
#define OUTBOX_SAME_EXECUTE_ONCE , execute_once
#endif

// What ProcessUtility hooks are given, to be handed on.
#if PG_VERSION_NUM >= 140000
#define OUTBOX_UTILITY_TREE bool read_only_tree,
#define OUTBOX_UTILITY_SAME_TREE read_only_tree,
#else
#define OUTBOX_UTILITY_TREE
#define OUTBOX_UTILITY_SAME_TREE
#endif

// The timeline that a server which is not in recovery writes. RecoveryInProgress() must have been
// called before, which also reads it into the session before version 15.
inline TimeLineID
insertion_timeline()
{
#if PG_VERSION_NUM >= 150000
    return GetWALInsertionTimeLine();
#else
    return ThisTimeLineID;
#endif
}

// Settings of that name which nobody has defined are refused, or at least told of.
inline void
reserve_setting_names(const char *prefix)
{
#if PG_VERSION_NUM >= 150000
    MarkGUCPrefixReserved(prefix);
#else
    EmitWarningsOnPlaceholders(prefix);
#endif
}

// Every setting that the session knows.
inline config_generic **
all_settings(int *count)
{
#if PG_VERSION_NUM >= 160000
    return get_guc_variables(count);
#else
    *count = GetNumConfigOptions();
    return get_guc_variables();
#endif
}

// Has `request` called when shared memory is asked for. From _PG_init while preloading.
inline void
request_shmem_by(void (*request)())
{
#if PG_VERSION_NUM >= 150000
    static shmem_request_hook_type previous_hook = nullptr;
    static void (*ours)() = nullptr;
    previous_hook = shmem_request_hook;
    ours = request;
    shmem_request_hook = []()
    {
        if (previous_hook != nullptr)
            previous_hook();
        ours();
    };
#else
    request();
#endif
}

// Prepares a function that returns a set to put its rows into result->setResult, in the form that
// the query expects or, without `expected`, in the one that the function was declared with.
inline void
begin_returned_rows(FunctionCallInfo fcinfo, bool expected)
{
#if PG_VERSION_NUM >= 150000
    InitMaterializedSRF(fcinfo, expected ? MAT_SRF_USE_EXPECTED_DESC : 0);
#else
    ReturnSetInfo *result = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);
    if (result == nullptr || !IsA(result, ReturnSetInfo) ||
        (result->allowedModes & SFRM_Materialize) == 0 ||
        (expected && result->expectedDesc == nullptr))
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("set-valued function called in context that cannot accept a set")));
    MemoryContext before = MemoryContextSwitchTo(result->econtext->ecxt_per_query_memory);
    TupleDesc desc;
    if (expected)
        desc = CreateTupleDescCopy(result->expectedDesc);
    else if (get_call_result_type(fcinfo, nullptr, &desc) != TYPEFUNC_COMPOSITE)
        elog(ERROR, "return type must be a row type");
    result->returnMode = SFRM_Materialize;
    result->setResult = tuplestore_begin_heap((result->allowedModes & SFRM_Materialize_Random) != 0,
                                              false, work_mem);
    result->setDesc = desc;
    MemoryContextSwitchTo(before);
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

// Who holds a lock on the relation that is in the way of an exclusive one: a process, or 0 for a
// prepared transaction. Only to be told to people: it may have changed by now.
inline int
process_in_the_way(Oid relation)
{
    LOCKTAG tag;
    SET_LOCKTAG_RELATION(tag, MyDatabaseId, relation);
    int count = 0;
    VirtualTransactionId *ids = GetLockConflicts(&tag, AccessExclusiveLock, &count);
    if (count == 0)
        return 0;
        // A prepared transaction goes by the number of the backend that prepared it, which may have
        // begun another one since.
#if PG_VERSION_NUM >= 170000
    PGPROC *holder =
        ids[0].procNumber == INVALID_PROC_NUMBER ? nullptr : ProcNumberGetProc(ids[0].procNumber);
    const bool same = holder != nullptr && holder->vxid.lxid == ids[0].localTransactionId;
#else
    PGPROC *holder =
        ids[0].backendId == InvalidBackendId ? nullptr : BackendIdGetProc(ids[0].backendId);
    const bool same = holder != nullptr && holder->lxid == ids[0].localTransactionId;
#endif
    return same ? holder->pid : 0;
}

} // namespace outbox
