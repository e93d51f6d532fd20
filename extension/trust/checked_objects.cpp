#include "checked_objects.h"

extern "C"
{
#include "catalog/pg_operator.h"
#include "catalog/pg_proc.h"
}

namespace outbox
{

namespace
{

constexpr int kMostObjects = 2048;

// As invalidations name them.
struct Visited
{
    Oid relations[kMostObjects];
    int relation_count;
    uint32 hashes[kMostObjects]; // of functions, types and operators
    int hash_count;
};

Visited visited;
bool current = false;

bool
is_visited(Oid relation)
{
    for (int i = 0; i < visited.relation_count; i++)
        if (visited.relations[i] == relation)
            return true;
    return false;
}

void
on_relation(Datum, Oid relation)
{
    current = current && OidIsValid(relation) && !is_visited(relation);
}

void
on_object(Datum, int, uint32 hash)
{
    if (hash == 0) // all of them
        current = false;
    for (int i = 0; current && i < visited.hash_count; i++)
        current = visited.hashes[i] != hash;
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
    if (visited.hash_count == kMostObjects)
        raise_too_many();
    visited.hashes[visited.hash_count++] = GetSysCacheHashValue1(cache, ObjectIdGetDatum(object));
}

} // namespace

void
begin_visits()
{
    watch();
    visited.relation_count = 0;
    visited.hash_count = 0;
    current = true;
}

bool
is_up_to_date()
{
    return current;
}

void
set_out_of_date()
{
    current = false;
}

void
visit(Oid catalog, Oid object)
{
    if (catalog == RelationRelationId && !is_visited(object))
    {
        if (visited.relation_count == kMostObjects)
            raise_too_many();
        visited.relations[visited.relation_count++] = object;
    }
    else if (catalog == ProcedureRelationId)
        remember_hash(PROCOID, object);
    else if (catalog == TypeRelationId)
        remember_hash(TYPEOID, object);
    else if (catalog == OperatorRelationId)
        remember_hash(OPEROID, object);
}

int
visited_relations()
{
    return visited.relation_count;
}

Oid
visited_relation(int number)
{
    return visited.relations[number];
}

} // namespace outbox
