// PostgreSQL's hooks, in all its versions.
#pragma once

#include "pg.h"

// What ExecutorRun hooks are given, to be passed on.
#if PG_VERSION_NUM >= 180000
#define OUTBOX_EXECUTE_ONCE
#define OUTBOX_SAME_EXECUTE_ONCE
#else
#define OUTBOX_EXECUTE_ONCE , bool execute_once
#define OUTBOX_SAME_EXECUTE_ONCE , execute_once
#endif

// What ProcessUtility hooks are given, to be passed on.
#if PG_VERSION_NUM >= 140000
#define OUTBOX_UTILITY_TREE bool read_only_tree,
#define OUTBOX_UTILITY_SAME_TREE read_only_tree,
#else
#define OUTBOX_UTILITY_TREE
#define OUTBOX_UTILITY_SAME_TREE
#endif

namespace outbox
{

#if PG_VERSION_NUM >= 150000
// Of request_shmem_by().
inline shmem_request_hook_type previous_shmem_request = nullptr;
inline void (*own_shmem_request)() = nullptr;

inline void
request_shared_memory_in_turn()
{
    if (previous_shmem_request != nullptr)
        previous_shmem_request();
    own_shmem_request();
}
#endif

// Has `request` called when shared memory is asked for. From _PG_init while preloading.
inline void
request_shmem_by(void (*request)())
{
#if PG_VERSION_NUM >= 150000
    previous_shmem_request = shmem_request_hook;
    own_shmem_request = request;
    shmem_request_hook = request_shared_memory_in_turn;
#else
    request();
#endif
}

} // namespace outbox
