#include "own_relations.h"

#include "installed_version.h"

extern "C"
{
#include "utils/rls.h"
}

namespace outbox
{

namespace
{

struct OwnRelations
{
    Oid tables[kRingSlots];
    Oid sequence;
    Oid processed;
    bool policies_known;
    bool policies; // row level security is enabled on outbox.events
    Oid events;
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

void
read_policies()
{
    watch();
    const Oid events = own_relation("events");
    HeapTuple row = SearchSysCache1(RELOID, ObjectIdGetDatum(events));
    if (!HeapTupleIsValid(row))
        return;
    known.policies = reinterpret_cast<Form_pg_class>(GETSTRUCT(row))->relrowsecurity;
    known.events = events;
    known.policies_known = true;
    ReleaseSysCache(row);
}

Oid
remembered(Oid &relation, const char *name)
{
    if (!OidIsValid(relation))
    {
        watch();
        relation = own_relation(name);
    }
    return relation;
}

} // namespace

Oid
own_relation(const char *name)
{
    const Oid relation = find_own_relation(name);
    if (OidIsValid(relation))
        return relation;
    char version[32];
    const Installed installed = installed_version(version, sizeof(version));
    ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
                    errmsg("relation \"outbox.%s\" does not exist", name),
                    installed == Installed::older
                        ? errhint("Run ALTER EXTENSION outbox UPDATE in this database: it has "
                                  "version %s.",
                                  version)
                        : errhint("Run CREATE EXTENSION outbox in this database.")));
}

Oid
events_table(int slot)
{
    if (OidIsValid(known.tables[slot]))
        return known.tables[slot];
    char name[NAMEDATALEN];
    snprintf(name, sizeof(name), "events_%d", slot);
    return remembered(known.tables[slot], name);
}

bool
policies_apply()
{
    if (!known.policies_known)
        read_policies();
    return known.policies && check_enable_rls(known.events, InvalidOid, true) == RLS_ENABLED;
}

Oid
events_sequence()
{
    return remembered(known.sequence, "events_seq");
}

Oid
processed_events_table()
{
    return remembered(known.processed, "processed_events");
}

void
refuse_unlogged(const char *table, const char *what_then)
{
    const Oid schema = get_namespace_oid("outbox", true);
    const Oid relation = OidIsValid(schema) ? get_relname_relid(table, schema) : InvalidOid;
    if (OidIsValid(relation) && get_rel_persistence(relation) == RELPERSISTENCE_UNLOGGED)
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("outbox.%s is unlogged", table), errdetail("%s", what_then),
                        errhint("Run alter table outbox.%s set logged.", table)));
}

} // namespace outbox
