// Finds the extension's relations quickly.
#pragma once

#include "event_table.h"

namespace outbox
{

// The oid of a relation in the schema outbox; InvalidOid when it is not there.
inline Oid
find_own_relation(const char *name)
{
    const Oid schema = get_namespace_oid("outbox", true);
    return OidIsValid(schema) ? get_relname_relid(name, schema) : InvalidOid;
}

// The same, but raises undefined_table when the extension is not in this database.
Oid own_relation(const char *name);

// The oid of outbox.events_<slot>, or of outbox.events_seq. Remembered until somebody changes a
// relation or a schema. Raises undefined_table when the extension is not in this database.
Oid events_table(int slot);
Oid events_sequence();

} // namespace outbox
