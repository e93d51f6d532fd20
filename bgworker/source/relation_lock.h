// Locks that are taken without waiting, or not at all.
#pragma once

#include "extension/trust/own_relations.h"

namespace outbox
{

enum class OpenResult
{
    opened,
    locked, // another session holds a lock that conflicts; try later
    missing // the extension is not (or no longer) in this database
};

// The last table that was locked, for relay_status.
inline char table_in_the_way[NAMEDATALEN];

inline void
set_table_in_the_way(const char *table)
{
    strlcpy(table_in_the_way, table != nullptr ? table : "", sizeof(table_in_the_way));
}

// Locks a relation that is still there, to the end of the transaction. The relay waits for no lock:
// behind DROP EXTENSION or TRUNCATE it would hold up neither, but could deadlock with both.
inline OpenResult
lock_relation(Oid relation, LOCKMODE mode)
{
    if (!OidIsValid(relation))
        return OpenResult::missing;
    if (!ConditionalLockRelationOid(relation, mode))
    {
        set_table_in_the_way(get_rel_name(relation));
        return OpenResult::locked;
    }
    return SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relation)) ? OpenResult::opened
                                                                     : OpenResult::missing;
}

inline bool
lock_if_free(const char *name, LOCKMODE mode)
{
    return lock_relation(find_own_relation(name), mode) == OpenResult::opened;
}

// The same with the table's indexes, which the planner locks too, for a statement that must not
// wait.
inline OpenResult
lock_table(Oid oid, LOCKMODE mode)
{
    OpenResult result = lock_relation(oid, mode);
    if (result != OpenResult::opened)
        return result;
    Relation table = table_open(oid, NoLock);
    List *indexes = RelationGetIndexList(table);
    for (int i = 0; i < list_length(indexes) && result != OpenResult::locked; i++)
        result = lock_relation(list_nth_oid(indexes, i), mode);
    list_free(indexes);
    table_close(table, NoLock);
    return result == OpenResult::locked ? result : OpenResult::opened;
}

inline OpenResult
lock_table(const char *name, LOCKMODE mode)
{
    return lock_table(find_own_relation(name), mode);
}

// What is missing cannot be locked, and counts as free.
inline bool
lock_with_indexes(const char *name, LOCKMODE mode)
{
    return lock_table(name, mode) != OpenResult::locked;
}

// And here it does not.
inline bool
lock_wholly(const char *name, LOCKMODE mode)
{
    return lock_table(name, mode) == OpenResult::opened;
}

// For statements that name outbox.events, which read all partitions, whatever they ask for.
inline bool
lock_events(LOCKMODE mode)
{
    bool free = lock_relation(find_own_relation("events"), mode) != OpenResult::locked;
    for (int slot = 0; slot < kRingSlots && free; slot++)
    {
        char name[NAMEDATALEN];
        snprintf(name, sizeof(name), "events_%d", slot);
        free = lock_with_indexes(name, mode);
    }
    return free;
}

} // namespace outbox
