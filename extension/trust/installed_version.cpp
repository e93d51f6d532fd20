#include "extension/core/version.h"

#include "installed_version.h"

extern "C"
{
#include "catalog/pg_extension.h"
}

namespace outbox
{

Installed
installed_version(char *version, size_t size)
{
    version[0] = '\0';
    Relation catalog = table_open(ExtensionRelationId, AccessShareLock);
    ScanKeyData key;
    ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber, F_NAMEEQ,
                CStringGetDatum("outbox"));
    SysScanDesc scan = systable_beginscan(catalog, ExtensionNameIndexId, true, nullptr, 1, &key);
    HeapTuple row = systable_getnext(scan);
    const bool found = HeapTupleIsValid(row);
    if (found)
    {
        bool null;
        const Datum value =
            heap_getattr(row, Anum_pg_extension_extversion, RelationGetDescr(catalog), &null);
        if (!null)
            strlcpy(version, TextDatumGetCString(value), size);
    }
    systable_endscan(scan);
    table_close(catalog, AccessShareLock);
    if (!found)
        return Installed::missing;
    const int order = compare_versions(version, OUTBOX_VERSION);
    if (order == 0)
        return Installed::same;
    return order < 0 ? Installed::older : Installed::newer;
}

const char *
version_remedy(Installed installed)
{
    return installed == Installed::newer
               ? "install the package of that version and restart PostgreSQL"
               : "run ALTER EXTENSION outbox UPDATE in this database";
}

} // namespace outbox
