#include "relay.h"

#include "owners.h"

#include "bgworker/spi_call.h"

namespace outbox
{

namespace
{

constexpr int kMostObjects = 512;

// Hash values of what was looked at, as invalidations name it.
uint32 relations[kMostObjects];
uint32 functions[kMostObjects];
int relation_count;
int function_count;
bool looked;

bool
is_one_of(const uint32 *hashes, int count, uint32 hash)
{
    if (hash == 0) // all of them
        return true;
    for (int i = 0; i < count; i++)
        if (hashes[i] == hash)
            return true;
    return false;
}

void
on_relation(Datum, int, uint32 hash)
{
    looked = looked && !is_one_of(relations, relation_count, hash);
}

void
on_function(Datum, int, uint32 hash)
{
    looked = looked && !is_one_of(functions, function_count, hash);
}

void
on_role(Datum, int, uint32)
{
    looked = false;
}

void
watch()
{
    static bool watching = false;
    if (watching)
        return;
    CacheRegisterSyscacheCallback(RELOID, on_relation, static_cast<Datum>(0));
    CacheRegisterSyscacheCallback(PROCOID, on_function, static_cast<Datum>(0));
    CacheRegisterSyscacheCallback(AUTHOID, on_role, static_cast<Datum>(0));
    watching = true;
}

// Foreign ones first.
constexpr const char *kOwners =
    "select d.classid operator(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass, d.objid, "
    " r.rolsuper, pg_catalog.pg_describe_object(d.classid, d.objid, 0), r.rolname "
    "from pg_catalog.pg_extension x "
    "join pg_catalog.pg_depend d on d.refobjid operator(pg_catalog.=) x.oid "
    " and d.refclassid operator(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass "
    " and d.deptype operator(pg_catalog.=) 'e' "
    "left join pg_catalog.pg_class c on c.oid operator(pg_catalog.=) d.objid "
    " and d.classid operator(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass "
    "left join pg_catalog.pg_proc p on p.oid operator(pg_catalog.=) d.objid "
    " and d.classid operator(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass "
    "join pg_catalog.pg_roles r on r.oid operator(pg_catalog.=) coalesce(c.relowner, p.proowner) "
    "where x.extname operator(pg_catalog.=) 'outbox' order by r.rolsuper, d.classid, d.objid";

void
remember(HeapTuple row, TupleDesc desc)
{
    bool is_null;
    const bool is_relation = DatumGetBool(SPI_getbinval(row, desc, 1, &is_null));
    const Datum object = SPI_getbinval(row, desc, 2, &is_null);
    if (is_relation)
        relations[relation_count++] = GetSysCacheHashValue1(RELOID, object);
    else
        functions[function_count++] = GetSysCacheHashValue1(PROCOID, object);
}

// Returns whether somebody else than a superuser owns one of them, and then says so.
bool
find_foreign_owner(char *problem, size_t problem_size)
{
    relation_count = 0;
    function_count = 0;
    spi_execute(kOwners, 0, nullptr, nullptr, SPI_OK_SELECT);
    const TupleDesc desc = SPI_tuptable->tupdesc;
    if (SPI_processed > kMostObjects)
        ereport(ERROR,
                (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
                 errmsg("outbox relay: the extension has more than %d objects", kMostObjects)));
    for (uint64 i = 0; i < SPI_processed; i++)
        remember(SPI_tuptable->vals[i], desc);
    bool is_null;
    if (SPI_processed == 0 || DatumGetBool(SPI_getbinval(SPI_tuptable->vals[0], desc, 3, &is_null)))
        return false;
    snprintf(problem, problem_size,
             "%s belongs to \"%s\", who is no superuser and could run code with the relay's "
             "rights; give it to a superuser (alter … owner to)",
             SPI_getvalue(SPI_tuptable->vals[0], desc, 4),
             SPI_getvalue(SPI_tuptable->vals[0], desc, 5));
    return true;
}

} // namespace

void
refuse_foreign_owners()
{
    if (looked)
        return;
    watch();
    looked = true; // unless something changes while it looks
    char problem[512];
    spi_connect();
    const bool foreign = find_foreign_owner(problem, sizeof(problem));
    SPI_finish();
    if (foreign)
        stop_for_a_person(problem);
}

} // namespace outbox
