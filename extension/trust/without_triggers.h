// A role that may create triggers on one of our tables need not be its owner: while these run, no
// trigger fires except those that an owner has marked ENABLE ALWAYS or REPLICA.
#pragma once

#include "extension/server/pg.h"

namespace outbox
{

int execute_plan_without_triggers(SPIPlanPtr plan, Datum *values, const char *nulls, bool read_only,
                                  long limit);
Datum call_without_triggers(FunctionCallInfo call);

} // namespace outbox
