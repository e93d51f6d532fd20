// Questions to the catalogues as they are now, whatever the transaction's snapshot is.
#pragma once

#include "pg.h"

extern "C"
{
#include "catalog/dependency.h"
#include "catalog/pg_depend.h"
}

namespace outbox
{

struct CatalogObject
{
    Oid catalog;
    Oid object;
};

// What an object depends on, or what depends on it. An error of PostgreSQL closes it with the rest
// of the transaction; otherwise end() does, there is no destructor.
class DependencyScan
{
public:
    enum Direction
    {
        kOf, // what the object depends on
        kOn  // what depends on the object
    };
    DependencyScan(Direction direction, Oid catalog, Oid object);
    bool next();
    void end();

    const CatalogObject &other() const { return other_; }
    char kind() const { return kind_; } // DEPENDENCY_NORMAL and the like

private:
    Direction direction_;
    Relation depend_;
    SysScanDesc scan_;
    CatalogObject other_;
    char kind_;
};

// InvalidOid when it is gone, or of a kind that has no owner.
Oid owner_of_object(Oid catalog, Oid object);
Oid extension_owner(Oid extension);

// When it fires: TRIGGER_FIRES_ON_ORIGIN and the like; 0 when it is gone.
char trigger_enabled(Oid trigger);

constexpr Oid kNoRole = static_cast<Oid>(-1);

// A role that is no superuser and may create objects in the schema; ACL_ID_PUBLIC, kNoRole.
Oid foreign_creator_in(Oid schema);

} // namespace outbox
