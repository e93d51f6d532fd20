#include "own_relations.h"

namespace outbox
{

namespace
{

struct OwnRelations
{
    Oid tables[kRingSlots];
    Oid sequence;
};

OwnRelations known;

// Runs whenever something in pg_class or pg_namespace has changed.
void
forget(Datum, int, uint32)
{
    known = {};
}

void
watch()
{
    static bool watching = false;
    if (watching)
        return;
    CacheRegisterSyscacheCallback(RELNAMENSP, forget, static_cast<Datum>(0));
    CacheRegisterSyscacheCallback(RELOID, forget, static_cast<Datum>(0));
    CacheRegisterSyscacheCallback(NAMESPACEOID, forget, static_cast<Datum>(0));
    watching = true;
}

Oid
look_up(const char *name)
{
    watch();
    const Oid schema = get_namespace_oid("outbox", true);
    const Oid relation = OidIsValid(schema) ? get_relname_relid(name, schema) : InvalidOid;
    if (!OidIsValid(relation))
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
                        errmsg("relation \"outbox.%s\" does not exist", name),
                        errhint("Run CREATE EXTENSION outbox in this database.")));
    return relation;
}

} // namespace

Oid
events_table(int slot)
{
    if (!OidIsValid(known.tables[slot]))
    {
        char name[NAMEDATALEN];
        snprintf(name, sizeof(name), "events_%d", slot);
        known.tables[slot] = look_up(name);
    }
    return known.tables[slot];
}

Oid
events_sequence()
{
    if (!OidIsValid(known.sequence))
        known.sequence = look_up("events_seq");
    return known.sequence;
}

} // namespace outbox
