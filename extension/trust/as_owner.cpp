// The SQL functions that operators call as the owner: each is declared as outbox_as_owner, and its
// body is the function of the same name with _as_owner behind. So their own security does not rest
// on names that their bodies look up: before that it is known whose objects those are.

#include "own_relations.h"
#include "trust.h"
#include "without_triggers.h"

extern "C"
{
#include "catalog/pg_proc.h"
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

} // namespace

} // namespace outbox

extern "C"
{
    OUTBOX_FUNCTION(outbox_as_owner);

    Datum outbox_as_owner(PG_FUNCTION_ARGS)
    {
        outbox::require_trusted_objects();
        FmgrInfo *body = outbox::find_body(fcinfo->flinfo);
        FunctionCallInfo call = static_cast<FunctionCallInfo>(
            palloc0(SizeForFunctionCallInfo(static_cast<size_t>(fcinfo->nargs))));
        InitFunctionCallInfoData(*call, body, fcinfo->nargs, fcinfo->fncollation, nullptr, nullptr);
        for (int i = 0; i < fcinfo->nargs; i++)
            call->args[i] = fcinfo->args[i];
        const Datum result = outbox::call_without_triggers(call);
        fcinfo->isnull = call->isnull;
        return result;
    }
}
