#include "core/uuid7.h"

#include "direct_insert.h"
#include "event_table.h"
#include "own_relations.h"
#include "settings.h"

extern "C"
{
#include "common/hashfn.h"
}

namespace outbox
{

namespace
{

Uuid7Generator generator;
pg_uuid_t last_made;

// Random bytes are drawn in bulk: one call for many ids.
struct RandomPool
{
    uint8 bytes[512];
    size_t used;
};
RandomPool pool = {{}, sizeof(RandomPool::bytes)};

const uint8 *
random_bytes()
{
    if (pool.used + 8 > sizeof(pool.bytes))
    {
        if (!pg_strong_random(pool.bytes, sizeof(pool.bytes)))
            ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR),
                            errmsg("could not generate random bytes for an event id")));
        pool.used = 0;
    }
    const uint8 *bytes = pool.bytes + pool.used;
    pool.used += 8;
    return bytes;
}

constexpr int64 kUnixEpochOffsetUs =
    (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * static_cast<int64>(86400) * 1000000;

} // namespace

int64
next_seq()
{
    return nextval_internal(events_sequence(), false);
}

void
lock_key(const text *aggregate_type, const text *key)
{
    if (!settings.serialize_keys)
        return;
    // A lock space of its own (field4 is 1 and 2 for PostgreSQL's advisory locks), so that nobody
    // else's advisory locks are in the way. A hash collision only makes two keys wait for each
    // other.
    const uint64 type_hash =
        hash_bytes_extended(reinterpret_cast<const unsigned char *>(VARDATA_ANY(aggregate_type)),
                            VARSIZE_ANY_EXHDR(aggregate_type), 0);
    const uint64 hash =
        hash_bytes_extended(reinterpret_cast<const unsigned char *>(VARDATA_ANY(key)),
                            VARSIZE_ANY_EXHDR(key), type_hash);
    LOCKTAG tag;
    SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, static_cast<uint32>(hash >> 32),
                         static_cast<uint32>(hash), 0x0b0c);
    (void) LockAcquire(&tag, ExclusiveLock, false, false);
}

void
make_event_id(TimestampTz now, pg_uuid_t *id)
{
    if (!generator.next((now + kUnixEpochOffsetUs) * 1000, random_bytes(), id->data))
        ereport(ERROR, (errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
                        errmsg("the system clock is outside the range of event ids")));
    last_made = *id;
}

bool
made_last(const pg_uuid_t *id)
{
    return memcmp(id, &last_made, sizeof(*id)) == 0;
}

void
insert_event(int slot_number, Datum *values, bool *nulls)
{
    Relation relation = table_open(events_table(slot_number), RowExclusiveLock);
    if (RelationGetNumberOfAttributes(relation) != kEventColumns)
        ereport(ERROR,
                (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                 errmsg("outbox.events_%d does not have the columns that this library expects",
                        slot_number),
                 errhint("Run ALTER EXTENSION outbox UPDATE, or restart PostgreSQL after an "
                         "update of the package.")));
    TupleTableSlot *slot = MakeSingleTupleTableSlot(RelationGetDescr(relation), &TTSOpsVirtual);
    memcpy(slot->tts_values, values, kEventColumns * sizeof(Datum));
    memcpy(slot->tts_isnull, nulls, kEventColumns * sizeof(bool));
    ExecStoreVirtualTuple(slot);
    insert_row(relation, slot);
    ExecDropSingleTupleTableSlot(slot);
    table_close(relation, NoLock);
}

} // namespace outbox
