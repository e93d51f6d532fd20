#include <algorithm>
#include <iterator>

#include "trust.h"

#include "catalog_scan.h"

extern "C"
{
#include "catalog/pg_attrdef.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_language.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_opclass.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_policy.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_rewrite.h"
#include "catalog/pg_statistic_ext.h"
#include "catalog/pg_trigger.h"
}

namespace outbox
{

namespace
{

constexpr int kMostObjects = 2048;

// What was looked at, as invalidations name it. Relations first wait here to be looked at.
struct Looked
{
    Oid relations[kMostObjects];
    int relation_count;
    uint32 hashes[kMostObjects]; // of functions, types and operators
    int hash_count;
};

Looked looked;
bool current; // the verdict is of what there is now
char verdict[512];

bool
is_watched(Oid relation)
{
    for (int i = 0; i < looked.relation_count; i++)
        if (looked.relations[i] == relation)
            return true;
    return false;
}

void
on_relation(Datum, Oid relation)
{
    current = current && OidIsValid(relation) && !is_watched(relation);
}

void
on_object(Datum, int, uint32 hash)
{
    if (hash == 0) // all of them
        current = false;
    for (int i = 0; current && i < looked.hash_count; i++)
        current = looked.hashes[i] != hash;
}

void
on_any(Datum, int, uint32)
{
    current = false;
}

void
watch()
{
    static bool watching = false;
    if (watching)
        return;
    CacheRegisterRelcacheCallback(on_relation, static_cast<Datum>(0));
    CacheRegisterSyscacheCallback(PROCOID, on_object, static_cast<Datum>(0));
    CacheRegisterSyscacheCallback(TYPEOID, on_object, static_cast<Datum>(0));
    CacheRegisterSyscacheCallback(OPEROID, on_object, static_cast<Datum>(0));
    CacheRegisterSyscacheCallback(NAMESPACEOID, on_any, static_cast<Datum>(0));
    CacheRegisterSyscacheCallback(AUTHOID, on_any, static_cast<Datum>(0));
    watching = true;
}

[[noreturn]] void
raise_too_many()
{
    ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
                    errmsg("more than %d objects belong to the extension outbox", kMostObjects)));
}

void
remember_hash(int cache, Oid object)
{
    if (looked.hash_count == kMostObjects)
        raise_too_many();
    looked.hashes[looked.hash_count++] = GetSysCacheHashValue1(cache, ObjectIdGetDatum(object));
}

void
remember(Oid catalog, Oid object)
{
    if (catalog == RelationRelationId && !is_watched(object))
    {
        if (looked.relation_count == kMostObjects)
            raise_too_many();
        looked.relations[looked.relation_count++] = object;
    }
    else if (catalog == ProcedureRelationId)
        remember_hash(PROCOID, object);
    else if (catalog == TypeRelationId)
        remember_hash(TYPEOID, object);
    else if (catalog == OperatorRelationId)
        remember_hash(OPEROID, object);
}

const char *
role_name(Oid role)
{
    const char *name = GetUserNameFromId(role, true);
    return name != nullptr ? name : "a role that is gone";
}

// What other objects are made of, and runs with them; of those that did not come with PostgreSQL.
bool
is_code(const CatalogObject &part)
{
    constexpr Oid kCode[] = {ProcedureRelationId,     OperatorRelationId,       TypeRelationId,
                             OperatorClassRelationId, OperatorFamilyRelationId, LanguageRelationId};
    return part.object >= static_cast<Oid>(FirstNormalObjectId) &&
           std::find(std::begin(kCode), std::end(kCode), part.catalog) != std::end(kCode);
}

// What works on the rows of a relation.
bool
works_on_rows(const CatalogObject &object)
{
    constexpr Oid kAttached[] = {AttrDefaultRelationId, ConstraintRelationId, RewriteRelationId,
                                 PolicyRelationId, StatisticExtRelationId};
    // Other triggers do not fire in the relay, nor while our functions run as the owner.
    if (object.catalog == TriggerRelationId)
    {
        const char enabled = trigger_enabled(object.object);
        return enabled == TRIGGER_FIRES_ALWAYS || enabled == TRIGGER_FIRES_ON_REPLICA;
    }
    return std::find(std::begin(kAttached), std::end(kAttached), object.catalog) !=
           std::end(kAttached);
}

bool
is_foreign(Oid catalog, Oid object, Oid *owner)
{
    *owner = owner_of_object(catalog, object);
    return OidIsValid(*owner) && !superuser_arg(*owner);
}

// Returns whether a superuser owns it.
bool
check_owner(Oid catalog, Oid object)
{
    Oid owner;
    if (!is_foreign(catalog, object, &owner))
        return true;
    snprintf(
        verdict, sizeof(verdict),
        "%s belongs to \"%s\", who is not a superuser and could run code with the rights of one; "
        "give it to a superuser (alter … owner to)",
        object_description(catalog, object), role_name(owner));
    return false;
}

// Whether superusers own all that the object is made of.
bool
check_parts(Oid catalog, Oid object)
{
    DependencyScan scan(DependencyScan::kOf, catalog, object);
    bool good = true;
    while (good && scan.next())
    {
        const CatalogObject part = scan.other();
        Oid owner;
        if (!is_code(part))
            continue;
        remember(part.catalog, part.object);
        if (!is_foreign(part.catalog, part.object, &owner))
            continue;
        good = false;
        snprintf(
            verdict, sizeof(verdict),
            "%s uses %s of \"%s\", who is not a superuser and could run code with the rights of "
            "one; drop it, or give that to a superuser (alter … owner to)",
            object_description(catalog, object), object_description(part.catalog, part.object),
            role_name(owner));
    }
    scan.end();
    return good;
}

// What depends on a relation and is a part of it, or works on it: a partition, an index, a default.
// A view of somebody's that reads it does not count.
bool
check_attached(Oid relation)
{
    DependencyScan scan(DependencyScan::kOn, RelationRelationId, relation);
    bool good = true;
    while (good && scan.next())
    {
        const CatalogObject attached = scan.other();
        if (attached.catalog == RelationRelationId)
            remember(attached.catalog, attached.object);
        else if (scan.kind() != DEPENDENCY_NORMAL && works_on_rows(attached))
            good = check_parts(attached.catalog, attached.object);
    }
    scan.end();
    return good;
}

// Their number grows meanwhile.
bool
check_relations()
{
    for (int i = 0; i < looked.relation_count; i++)
        if (!check_owner(RelationRelationId, looked.relations[i]) ||
            !check_parts(RelationRelationId, looked.relations[i]) ||
            !check_attached(looked.relations[i]))
            return false;
    return true;
}

Oid
find_schema(Oid extension)
{
    DependencyScan scan(DependencyScan::kOn, ExtensionRelationId, extension);
    Oid schema = InvalidOid;
    while (!OidIsValid(schema) && scan.next())
        if (scan.kind() == DEPENDENCY_EXTENSION && scan.other().catalog == NamespaceRelationId)
            schema = scan.other().object;
    scan.end();
    return schema;
}

bool
check_members(Oid extension)
{
    DependencyScan scan(DependencyScan::kOn, ExtensionRelationId, extension);
    bool good = true;
    while (good && scan.next())
    {
        const CatalogObject member = scan.other();
        if (scan.kind() != DEPENDENCY_EXTENSION)
            continue;
        remember(member.catalog, member.object);
        if (member.catalog != RelationRelationId) // those come later, with what is attached to them
            good = check_owner(member.catalog, member.object) &&
                   check_parts(member.catalog, member.object);
    }
    scan.end();
    return good;
}

// What else somebody has put there.
bool
check_others_in(Oid schema)
{
    DependencyScan scan(DependencyScan::kOn, NamespaceRelationId, schema);
    bool good = true;
    while (good && scan.next())
        good = check_owner(scan.other().catalog, scan.other().object);
    scan.end();
    return good;
}

bool
check_schema(Oid schema)
{
    if (OidIsValid(schema) && get_namespace_oid("outbox", true) == schema)
        return check_owner(NamespaceRelationId, schema) && check_others_in(schema);
    snprintf(verdict, sizeof(verdict),
             "the schema \"outbox\" is not the one of the extension; rename that one back, after "
             "the other one (alter schema … rename to)");
    return false;
}

void
look()
{
    verdict[0] = '\0';
    looked.relation_count = 0;
    looked.hash_count = 0;
    const Oid extension = get_extension_oid("outbox", true);
    if (!OidIsValid(extension))
        return;
    const Oid owner = extension_owner(extension);
    if (!superuser_arg(owner))
    {
        snprintf(verdict, sizeof(verdict),
                 "the extension outbox belongs to \"%s\", who is not a superuser; give it to one "
                 "(reassign owned by … to …)",
                 role_name(owner));
        return;
    }
    if (check_schema(find_schema(extension)) && check_members(extension))
        (void) check_relations();
}

int
set_replication_role(int role)
{
    const int before = SessionReplicationRole;
    SessionReplicationRole = role;
    return before;
}

} // namespace

bool
objects_are_trusted(char *problem, size_t size)
{
    if (!current)
    {
        watch();
        // Unless something changes while it looks; and an error leaves it undone.
        current = true;
        PG_TRY();
        {
            look();
        }
        PG_CATCH();
        {
            current = false;
            PG_RE_THROW();
        }
        PG_END_TRY();
        current = current && verdict[0] == '\0';
    }
    strlcpy(problem, verdict, size);
    return verdict[0] == '\0';
}

bool
schema_is_closed(char *problem, size_t size)
{
    problem[0] = '\0';
    const Oid creator = foreign_creator_in(get_namespace_oid("outbox", true));
    if (creator == kNoRole)
        return true;
    snprintf(problem, size,
             "%s may create objects in the schema outbox and could have the relay run code; take "
             "the right away (revoke create on schema outbox from %s)",
             creator == ACL_ID_PUBLIC ? "everybody" : quote_identifier(role_name(creator)),
             creator == ACL_ID_PUBLIC ? "public" : quote_identifier(role_name(creator)));
    return false;
}

void
require_trusted_objects()
{
    char problem[512];
    if (objects_are_trusted(problem, sizeof(problem)))
        return;
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("outbox does not work with what others can change"),
                    errdetail("%s.", problem), errhint("See docs/security.md.")));
}

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
