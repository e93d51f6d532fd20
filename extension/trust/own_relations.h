// Finds the extension's relations quickly.
#pragma once

#include "extension/emit/event_table.h"

namespace outbox
{

// Whether the object belongs to the extension.
inline bool
is_own(Oid catalog, Oid object)
{
    const Oid extension = getExtensionOfObject(catalog, object);
    return OidIsValid(extension) && extension == get_extension_oid("outbox", true);
}

// The oid of the extension's relation of that name in the schema outbox; InvalidOid when it is not
// there. Another one in its place does not count.
inline Oid
find_own_relation(const char *name)
{
    const Oid schema = get_namespace_oid("outbox", true);
    const Oid relation = OidIsValid(schema) ? get_relname_relid(name, schema) : InvalidOid;
    return OidIsValid(relation) && is_own(RelationRelationId, relation) ? relation : InvalidOid;
}

// The same, but raises undefined_table when the extension is not in this database.
Oid own_relation(const char *name);

// The oid of outbox.events_<slot>, of outbox.events_seq, and of outbox.processed_events. Remembered
// until somebody changes a relation or a schema: to ask pg_depend for each event whether it belongs
// to the extension would take a quarter of a mark_processed(). Raises undefined_table when the
// extension is not in this database.
Oid events_table(int slot);
Oid events_sequence();
Oid processed_events_table();

// Raises object_not_in_prerequisite_state when the table of that name in the schema outbox is
// unlogged: a crash would empty it. `what_then` is the sentence that says what follows from that.
void refuse_unlogged(const char *table, const char *what_then);

// Whether an INSERT of the current user into outbox.events is subject to policies.
bool policies_apply();

} // namespace outbox
