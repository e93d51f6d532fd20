// PostgreSQL's table of locks, in all its versions.
#pragma once

#include "pg.h"

namespace outbox
{

// How many locks this process holds for which `is_meant` is true, each mode counted. Only for locks
// that a process takes for itself: PostgreSQL moves those of tables here on behalf of others.
inline int
count_locks_that(bool (*is_meant)(const LOCKTAG &tag))
{
#if PG_VERSION_NUM >= 160000
    using Link = dlist_node;
#else
    using Link = SHM_QUEUE;
#endif
    int count = 0;
    for (int i = 0; i < NUM_LOCK_PARTITIONS; i++)
    {
#if PG_VERSION_NUM >= 160000
        Link *head = &MyProc->myProcLocks[i].head;
#else
        Link *head = &MyProc->myProcLocks[i];
#endif
        if (head->next == head)
            continue;
        LWLockAcquire(LockHashPartitionLockByIndex(i), LW_SHARED);
        for (Link *at = head->next; at != head; at = at->next)
        {
            const PROCLOCK *held = reinterpret_cast<PROCLOCK *>(reinterpret_cast<char *>(at) -
                                                                offsetof(PROCLOCK, procLink));
            if (is_meant(held->tag.myLock->tag))
                count += pg_popcount32(static_cast<uint32>(held->holdMask));
        }
        LWLockRelease(LockHashPartitionLockByIndex(i));
    }
    return count;
}

// The process whose lock on the relation is in the way of one of this mode, or 0 for a prepared
// transaction. Only for messages: it may have changed by now.
inline int
process_in_the_way(Oid relation, LOCKMODE mode)
{
    LOCKTAG tag;
    SET_LOCKTAG_RELATION(tag, MyDatabaseId, relation);
    int count = 0;
    VirtualTransactionId *ids = GetLockConflicts(&tag, mode, &count);
    if (count == 0)
        return 0;
        // A prepared transaction goes by the number of the backend that prepared it, which may have
        // begun another one since.
#if PG_VERSION_NUM >= 170000
    PGPROC *holder =
        ids[0].procNumber == INVALID_PROC_NUMBER ? nullptr : ProcNumberGetProc(ids[0].procNumber);
    const bool same = holder != nullptr && holder->vxid.lxid == ids[0].localTransactionId;
#else
    PGPROC *holder =
        ids[0].backendId == InvalidBackendId ? nullptr : BackendIdGetProc(ids[0].backendId);
    const bool same = holder != nullptr && holder->lxid == ids[0].localTransactionId;
#endif
    return same ? holder->pid : 0;
}

} // namespace outbox
