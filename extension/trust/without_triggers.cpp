#include "without_triggers.h"

namespace outbox
{

namespace
{

int
set_replication_role(int role)
{
    const int before = SessionReplicationRole;
    SessionReplicationRole = role;
    return before;
}

} // namespace

// The variable, not the setting: SET would make the session plan all of its statements anew.
int
execute_plan_without_triggers(SPIPlanPtr plan, Datum *values, const char *nulls, bool read_only,
                              long limit)
{
    const int before = set_replication_role(SESSION_REPLICATION_ROLE_REPLICA);
    volatile int result = 0;
    PG_TRY();
    {
        result = SPI_execute_plan(plan, values, nulls, read_only, limit);
    }
    PG_FINALLY();
    {
        SessionReplicationRole = before;
    }
    PG_END_TRY();
    return result;
}

Datum
call_without_triggers(FunctionCallInfo call)
{
    const int before = set_replication_role(SESSION_REPLICATION_ROLE_REPLICA);
    volatile Datum result = 0;
    PG_TRY();
    {
        result = FunctionCallInvoke(call);
    }
    PG_FINALLY();
    {
        SessionReplicationRole = before;
    }
    PG_END_TRY();
    return result;
}

} // namespace outbox
