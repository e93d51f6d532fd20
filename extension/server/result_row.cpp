#include "result_row.h"

namespace outbox
{

TupleDesc
result_type(FunctionCallInfo fcinfo, int columns)
{
    TupleDesc desc;
    if (get_call_result_type(fcinfo, nullptr, &desc) != TYPEFUNC_COMPOSITE ||
        desc->natts > ResultRow::kMostColumns || (columns != 0 && desc->natts != columns))
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("outbox.%s() does not have the columns that this library expects",
                               get_func_name(fcinfo->flinfo->fn_oid)),
                        errhint("Run ALTER EXTENSION outbox UPDATE.")));
    return BlessTupleDesc(desc);
}

} // namespace outbox
