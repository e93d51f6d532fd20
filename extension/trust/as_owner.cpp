// The SQL functions that operators call as the owner: each is declared as outbox_as_owner, and its
// body is the function of the same name with _as_owner behind. So their own security does not rest
// on names that their bodies look up: before that it is known whose objects those are. Those that
// superusers call, whoever may grant them, are declared as outbox_as_superuser.

#include "own_relations.h"
#include "trust.h"
#include "without_triggers.h"

extern "C"
{
#include "catalog/pg_collation.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
}

namespace outbox
{

namespace
{

// Of the arguments that the caller's declaration says.
FmgrInfo *
find_body(FmgrInfo *called)
{
    if (called->fn_extra != nullptr)
        return static_cast<FmgrInfo *>(called->fn_extra);
    char name[NAMEDATALEN];
    snprintf(name, sizeof(name), "%s_as_owner", get_func_name(called->fn_oid));
    Oid *types;
    int count;
    (void) get_func_signature(called->fn_oid, &types, &count);
    List *names = list_make2(makeString(pstrdup("outbox")), makeString(name));
    const Oid body = LookupFuncName(names, count, types, false);
    if (!is_own(ProcedureRelationId, body) ||
        get_func_rettype(body) != get_func_rettype(called->fn_oid))
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_FUNCTION),
                        errmsg("the extension outbox has no function %s", name),
                        errhint("Run ALTER EXTENSION outbox UPDATE in this database.")));
    FmgrInfo *found =
        static_cast<FmgrInfo *>(MemoryContextAlloc(called->fn_mcxt, sizeof(FmgrInfo)));
    fmgr_info_cxt(body, found, called->fn_mcxt);
    called->fn_extra = found;
    return found;
}

Datum
call_body(FunctionCallInfo called)
{
    require_trusted_objects();
    FmgrInfo *body = find_body(called->flinfo);
    // Not that of the caller's columns, which those of the tables would contradict.
    FunctionCallInfo call = static_cast<FunctionCallInfo>(
        palloc0(SizeForFunctionCallInfo(static_cast<size_t>(called->nargs))));
    InitFunctionCallInfoData(*call, body, called->nargs, DEFAULT_COLLATION_OID, nullptr, nullptr);
    for (int i = 0; i < called->nargs; i++)
        call->args[i] = called->args[i];
    const Datum result = call_without_triggers(call);
    called->isnull = call->isnull;
    return result;
}

bool
takes_options(Oid function)
{
    Oid *types;
    int count;
    (void) get_func_signature(function, &types, &count);
    for (int i = 0; i < count; i++)
        if (types[i] == JSONBOID)
            return true;
    return false;
}

// Options that are refused may hold a password where there must be none: whatever is wrong, the
// server's log has neither the statement nor the context, which may quote it. The client gets both.
Datum
call_unlogged(FunctionCallInfo called)
{
    MemoryContext context = CurrentMemoryContext;
    volatile Datum result = 0;
    PG_TRY();
    {
        result = call_body(called);
    }
    PG_CATCH();
    {
        MemoryContextSwitchTo(context);
        ErrorData *error = CopyErrorData();
        FlushErrorState();
        error->hide_stmt = true;
        error->hide_ctx = true;
        ReThrowError(error);
    }
    PG_END_TRY();
    return result;
}

} // namespace

} // namespace outbox

extern "C"
{
    OUTBOX_FUNCTION(outbox_as_owner);
    OUTBOX_FUNCTION(outbox_as_superuser);

    Datum outbox_as_owner(PG_FUNCTION_ARGS)
    {
        return outbox::call_body(fcinfo);
    }

    Datum outbox_as_superuser(PG_FUNCTION_ARGS)
    {
        if (!superuser())
            ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
                            errmsg("only superusers may call outbox.%s()",
                                   get_func_name(fcinfo->flinfo->fn_oid)),
                            errdetail("It says where all events of the database are sent.")));
        return outbox::takes_options(fcinfo->flinfo->fn_oid) ? outbox::call_unlogged(fcinfo)
                                                             : outbox::call_body(fcinfo);
    }
}
