// PostgreSQL's headers. What differs between its versions is here and in the files pg_*.h, and
// nowhere else. Include it after all standard and library headers: it redefines names that those
// use.
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

// Intervals have an end before version 17.
#if PG_VERSION_NUM < 170000
#define INTERVAL_IS_NOEND(interval) false
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

// Ids before this one no longer have a commit status.
inline TransactionId
oldest_known_xid()
{
#if PG_VERSION_NUM >= 170000
    return TransamVariables->oldestClogXid;
#else
    return ShmemVariableCache->oldestClogXid;
#endif
}

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

} // namespace outbox
