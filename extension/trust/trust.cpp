#include <algorithm>
#include <iterator>

#include "trust.h"

#include "checked_objects.h"

#include "extension/server/catalog_scan.h"

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

char verdict[512];

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
        visit(part.catalog, part.object);
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
// A view that reads it does not count.
bool
check_attached(Oid relation)
{
    DependencyScan scan(DependencyScan::kOn, RelationRelationId, relation);
    bool good = true;
    while (good && scan.next())
    {
        const CatalogObject attached = scan.other();
        if (attached.catalog == RelationRelationId)
            visit(attached.catalog, attached.object);
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
    for (int i = 0; i < visited_relations(); i++)
        if (!check_owner(RelationRelationId, visited_relation(i)) ||
            !check_parts(RelationRelationId, visited_relation(i)) ||
            !check_attached(visited_relation(i)))
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
        visit(member.catalog, member.object);
        if (member.catalog != RelationRelationId) // those come later, with what is attached to them
            good = check_owner(member.catalog, member.object) &&
                   check_parts(member.catalog, member.object);
    }
    scan.end();
    return good;
}

// What else is in the schema.
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

// Asks for the name, not by it: what a name led to before the extension was made anew is cached
// until a moment after that can be seen.
bool
check_schema(Oid schema)
{
    const char *name = OidIsValid(schema) ? get_namespace_name(schema) : nullptr;
    if (name != nullptr && strcmp(name, "outbox") == 0)
        return check_owner(NamespaceRelationId, schema) && check_others_in(schema);
    snprintf(verdict, sizeof(verdict),
             "the schema \"outbox\" is not the one of the extension; rename that one back, after "
             "the other one (alter schema … rename to)");
    return false;
}

void
check_extension(Oid extension)
{
    verdict[0] = '\0';
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

// Each look into the catalogues sees what has committed by then. So what is found wrong of an
// extension that was dropped meanwhile, or made anew, says nothing.
void
check_all()
{
    constexpr int kAttempts = 10;
    Oid extension = InvalidOid;
    for (int i = 0; i < kAttempts && (i == 0 || verdict[0] != '\0'); i++)
    {
        const Oid found = get_extension_oid("outbox", true);
        if (i > 0 && found == extension)
            return;
        extension = found;
        begin_visits();
        check_extension(extension);
    }
}

} // namespace

bool
objects_are_trusted(char *problem, size_t size)
{
    if (!is_up_to_date())
    {
        // Unless something changes meanwhile; an error leaves the check undone.
        PG_TRY();
        {
            check_all();
        }
        PG_CATCH();
        {
            set_out_of_date();
            PG_RE_THROW();
        }
        PG_END_TRY();
        if (verdict[0] != '\0')
            set_out_of_date();
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

} // namespace outbox
