#include "catalog_scan.h"

extern "C"
{
#include "catalog/indexing.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_trigger.h"
}

namespace outbox
{

namespace
{

// A column of the one row of a catalogue that an index finds by its oid. Returns false when there
// is none.
bool
read_column(Oid catalog, Oid index, AttrNumber oid_column, Oid oid, AttrNumber column, Datum *value)
{
    Relation relation = table_open(catalog, AccessShareLock);
    ScanKeyData key;
    ScanKeyInit(&key, oid_column, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(oid));
    SysScanDesc scan = systable_beginscan(relation, index, true, nullptr, 1, &key);
    HeapTuple row = systable_getnext(scan);
    bool is_null = true;
    if (HeapTupleIsValid(row))
        *value = heap_getattr(row, column, RelationGetDescr(relation), &is_null);
    systable_endscan(scan);
    table_close(relation, AccessShareLock);
    return !is_null;
}

} // namespace

DependencyScan::DependencyScan(Direction direction, Oid catalog, Oid object)
    : direction_(direction), depend_(table_open(DependRelationId, AccessShareLock)),
      scan_(nullptr), other_{}, kind_(0)
{
    const bool of = direction == kOf;
    ScanKeyData keys[2];
    ScanKeyInit(&keys[0], of ? Anum_pg_depend_classid : Anum_pg_depend_refclassid,
                BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(catalog));
    ScanKeyInit(&keys[1], of ? Anum_pg_depend_objid : Anum_pg_depend_refobjid,
                BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(object));
    scan_ = systable_beginscan(depend_, of ? DependDependerIndexId : DependReferenceIndexId, true,
                               nullptr, 2, keys);
}

bool
DependencyScan::next()
{
    HeapTuple row = systable_getnext(scan_);
    if (!HeapTupleIsValid(row))
        return false;
    const Form_pg_depend depend = reinterpret_cast<Form_pg_depend>(GETSTRUCT(row));
    if (direction_ == kOf)
        other_ = {depend->refclassid, depend->refobjid};
    else
        other_ = {depend->classid, depend->objid};
    kind_ = depend->deptype;
    return true;
}

void
DependencyScan::end()
{
    systable_endscan(scan_);
    table_close(depend_, AccessShareLock);
}

Oid
owner_of_object(Oid catalog, Oid object)
{
    if (!is_objectclass_supported(catalog))
        return InvalidOid;
    const AttrNumber column = get_object_attnum_owner(catalog);
    const int cache = get_object_catcache_oid(catalog);
    if (column == InvalidAttrNumber || cache < 0)
        return InvalidOid;
    HeapTuple row = SearchSysCache1(cache, ObjectIdGetDatum(object));
    if (!HeapTupleIsValid(row))
        return InvalidOid;
    bool is_null;
    const Oid owner = DatumGetObjectId(SysCacheGetAttr(cache, row, column, &is_null));
    ReleaseSysCache(row);
    return is_null ? InvalidOid : owner;
}

Oid
extension_owner(Oid extension)
{
    Datum owner;
    return read_column(ExtensionRelationId, ExtensionOidIndexId, Anum_pg_extension_oid, extension,
                       Anum_pg_extension_extowner, &owner)
               ? DatumGetObjectId(owner)
               : InvalidOid;
}

char
trigger_enabled(Oid trigger)
{
    Datum enabled;
    return read_column(TriggerRelationId, TriggerOidIndexId, Anum_pg_trigger_oid, trigger,
                       Anum_pg_trigger_tgenabled, &enabled)
               ? DatumGetChar(enabled)
               : '\0';
}

Oid
foreign_creator_in(Oid schema)
{
    HeapTuple row = SearchSysCache1(NAMESPACEOID, ObjectIdGetDatum(schema));
    if (!HeapTupleIsValid(row))
        return kNoRole;
    bool is_null;
    const Datum value = SysCacheGetAttr(NAMESPACEOID, row, Anum_pg_namespace_nspacl, &is_null);
    Oid creator = kNoRole;
    if (!is_null)
    {
        const Acl *acl = DatumGetAclP(value);
        const AclItem *items = ACL_DAT(acl);
        for (int i = 0; i < ACL_NUM(acl) && creator == kNoRole; i++)
            if ((ACLITEM_GET_PRIVS(items[i]) & ACL_CREATE) != 0 &&
                (items[i].ai_grantee == ACL_ID_PUBLIC || !superuser_arg(items[i].ai_grantee)))
                creator = items[i].ai_grantee;
    }
    ReleaseSysCache(row);
    return creator;
}

} // namespace outbox
