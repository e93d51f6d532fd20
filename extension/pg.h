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
#include "catalog/index.h"
#include "catalog/namespace.h"
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
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "pgstat.h"
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
}

#if PG_VERSION_NUM < 150000
#error "outbox needs PostgreSQL 15 or newer"
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

// Inserts the row's index entries; the table has no unique constraint to be deferred.
inline void
insert_index_entries(ResultRelInfo *relation, TupleTableSlot *slot, EState *estate)
{
#if PG_VERSION_NUM >= 160000
    List *recheck =
        ExecInsertIndexTuples(relation, slot, estate, false, false, nullptr, NIL, false);
#else
    List *recheck = ExecInsertIndexTuples(relation, slot, estate, false, false, nullptr, NIL);
#endif
    list_free(recheck);
}

// Inserts the row's index entries. False when another row has, or may come to have, the same unique
// key; the entries are there all the same.
inline bool
insert_unique_entries(ResultRelInfo *relation, TupleTableSlot *slot, EState *estate)
{
    bool conflict = false;
#if PG_VERSION_NUM >= 160000
    List *recheck =
        ExecInsertIndexTuples(relation, slot, estate, false, true, &conflict, NIL, false);
#else
    List *recheck = ExecInsertIndexTuples(relation, slot, estate, false, true, &conflict, NIL);
#endif
    list_free(recheck);
    return !conflict;
}

// One entry of an index that is not unique.
inline void
insert_index_entry(Relation index, Datum *values, bool *nulls, ItemPointer place, Relation table,
                   IndexInfo *info)
{
    (void) index_insert(index, values, nulls, place, table, UNIQUE_CHECK_NO, false, info);
#if PG_VERSION_NUM >= 170000
    index_insert_cleanup(index, info);
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
