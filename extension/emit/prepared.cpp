#include "prepared.h"

#include "extension/shared/shared_state.h"

extern "C"
{
#include "access/twophase.h"
}

namespace outbox
{

// Written by who has claimed it; read by others while it is `noted`. PostgreSQL sees to it that a
// name is prepared once, and committed or rolled back once.
struct PreparedCount
{
    enum State : uint32
    {
        unused,
        claimed,
        noted
    };

    pg_atomic_uint32 state;
    Oid database;
    uint64 events;
    bool restored;
    char gid[GIDSIZE];
};

namespace
{

constexpr const char *kShmemName = "outbox_prepared";

PreparedCount *entries = nullptr;

// Of this session.
char next_gid[GIDSIZE];
PreparedCount *under_way = nullptr;

Size
memory_size()
{
    return mul_size(sizeof(PreparedCount), static_cast<Size>(max_prepared_xacts));
}

void
release(PreparedCount *entry)
{
    pg_atomic_write_u32(&entry->state, PreparedCount::unused);
}

PreparedCount *
claim()
{
    for (int i = 0; i < max_prepared_xacts; i++)
    {
        uint32 expected = PreparedCount::unused;
        if (pg_atomic_compare_exchange_u32(&entries[i].state, &expected, PreparedCount::claimed))
            return &entries[i];
    }
    return nullptr;
}

} // namespace

void
request_prepared_memory()
{
    RequestAddinShmemSpace(memory_size());
}

void
start_prepared_memory()
{
    if (max_prepared_xacts == 0)
        return;
    bool found = false;
    entries = static_cast<PreparedCount *>(ShmemInitStruct(kShmemName, memory_size(), &found));
    for (int i = 0; i < max_prepared_xacts && !found; i++)
        pg_atomic_init_u32(&entries[i].state, PreparedCount::unused);
}

void
expect_prepare(const char *gid)
{
    strlcpy(next_gid, gid, sizeof(next_gid));
}

void
begin_prepare(uint64 events, bool restored)
{
    if (entries == nullptr || (events == 0 && !restored))
        return;
    under_way = claim();
    if (under_way == nullptr)
        return;
    under_way->database = MyDatabaseId;
    under_way->events = events;
    under_way->restored = restored;
    strlcpy(under_way->gid, next_gid, sizeof(under_way->gid));
    pg_write_barrier();
    pg_atomic_write_u32(&under_way->state, PreparedCount::noted);
}

void
end_prepare(bool prepared)
{
    if (under_way != nullptr && !prepared)
        release(under_way);
    under_way = nullptr;
}

PreparedCount *
find_prepared(const char *gid)
{
    for (int i = 0; entries != nullptr && i < max_prepared_xacts; i++)
    {
        PreparedCount *entry = &entries[i];
        if (pg_atomic_read_u32(&entry->state) != PreparedCount::noted)
            continue;
        pg_read_barrier();
        if (strncmp(entry->gid, gid, GIDSIZE) == 0)
            return entry;
    }
    return nullptr;
}

void
forget_prepared(PreparedCount *entry, bool committed)
{
    DatabaseSlot *slot = committed ? find_slot(entry->database) : nullptr;
    if (slot != nullptr)
        pg_atomic_fetch_add_u64(&slot->emitted, static_cast<int64>(entry->events));
    if (slot != nullptr && entry->restored)
        pg_atomic_fetch_add_u32(&slot->restores, 1);
    release(entry);
}

} // namespace outbox
