// Whose code runs with the rights of the extension's owner, a superuser: the relay's process and
// the security definer functions. The owner of an object that they use, or of its schema, can
// attach code to it or put another in its place.
#pragma once

#include "extension/server/pg.h"
#include "extension/shared/for_relay.h"

namespace outbox
{

// Whether only superusers' code can run there. The schema outbox and all that is used of it are the
// extension's own; a superuser owns each of them, whatever else is in the schema, and all code that
// is attached to them: types, defaults, constraints, indexes, rules, policies, and the triggers
// that fire in spite of without_triggers.h. If not, `problem` says what is wrong and what to do.
// Checks only when one of these objects, a schema or a role has changed since. Needs a transaction.
OUTBOX_FOR_RELAY bool objects_are_trusted(char *problem, size_t size);

// The same question about the schema's rights: a role that may create objects in it could offer one
// under a name that is looked up.
OUTBOX_FOR_RELAY bool schema_is_closed(char *problem, size_t size);

// Raises object_not_in_prerequisite_state when the answer is no. For functions that run as the
// owner, before they touch anything.
void require_trusted_objects();

} // namespace outbox
