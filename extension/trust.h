// Whose code runs with the rights of the extension's owner, a superuser: the relay's process and
// the security definer functions. Whoever owns one of the objects that they use, or its schema, can
// attach code to it or put another in its place.
#pragma once

#include "for_relay.h"
#include "pg.h"

namespace outbox
{

// Whether nobody but superusers can have his code run there. The schema outbox and all that is used
// of it are the extension's own; a superuser owns each of them, whatever else is in the schema, and
// all code that is attached to them: types, defaults, constraints, indexes, rules, policies, and
// the triggers that fire in spite of what is below. If not, `problem` says what is wrong and what
// to do. Looks only when one of these objects, a schema or a role has changed since. Needs a
// transaction.
OUTBOX_FOR_RELAY bool objects_are_trusted(char *problem, size_t size);

// The same question about the schema's rights: who may create objects in it could offer others
// under a name that is looked for.
OUTBOX_FOR_RELAY bool schema_is_closed(char *problem, size_t size);

// Raises object_not_in_prerequisite_state when the answer is no. For functions that run as the
// owner, before they touch anything.
void require_trusted_objects();

// Who may create triggers on one of our tables is not who may act as its owner: while these run, no
// trigger fires but those that an owner has marked ENABLE ALWAYS.
int execute_plan_without_triggers(SPIPlanPtr plan, Datum *values, const char *nulls, bool read_only,
                                  long limit);
Datum call_without_triggers(FunctionCallInfo call);

} // namespace outbox
