#include "core/uuid7.h"

#include "direct_insert.h"
#include "event_table.h"
#include "own_relations.h"
#include "settings.h"

extern "C"
{
#include "common/hashfn.h"
#include "rewrite/rewriteHandler.h"
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

constexpr const char *kColumnNames[kEventColumns] = {"seq",
                                                     "xid",
                                                     "created_at",
                                                     "id",
                                                     "schema_version",
                                                     "slot",
                                                     "aggregate_type",
                                                     "aggregate_id",
                                                     "event_type",
                                                     "partition_key",
                                                     "payload",
                                                     "payload_bytes",
                                                     "headers"};

bool
is_column(TupleDesc desc, int index, const char *name)
{
    const Form_pg_attribute attribute = TupleDescAttr(desc, index);
    return !attribute->attisdropped && strcmp(NameStr(attribute->attname), name) == 0;
}

bool
is_ours(const AttrNumber *columns, int index)
{
    for (int i = 0; i < kEventColumns; i++)
        if (columns[i] == index + 1)
            return true;
    return false;
}

[[noreturn]] void
refuse_detached(int slot)
{
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("outbox.events_%d is not a partition of outbox.events", slot),
                    errdetail("New events go there, and it was detached."),
                    errhint("ALTER TABLE outbox.events ATTACH PARTITION outbox.events_%d FOR "
                            "VALUES IN (%d)",
                            slot, slot)));
    pg_unreachable();
}

// What people added to outbox.events gets what an INSERT would give it.
void
fill_added_columns(Relation table, const AttrNumber *columns, TupleTableSlot *row)
{
    TupleDesc desc = RelationGetDescr(table);
    EState *estate = nullptr;
    for (int i = 0; i < desc->natts; i++)
    {
        const Form_pg_attribute attribute = TupleDescAttr(desc, i);
        if (attribute->attisdropped || is_ours(columns, i))
            continue;
        if (attribute->attgenerated != '\0')
            ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                            errmsg("outbox.events has a generated column \"%s\"",
                                   NameStr(attribute->attname)),
                            errhint("Drop it, or use a view.")));
        Node *value = build_column_default(table, i + 1);
        if (value != nullptr)
        {
            estate = estate != nullptr ? estate : CreateExecutorState();
            ExprState *state = ExecPrepareExpr(reinterpret_cast<Expr *>(value), estate);
            row->tts_values[i] =
                ExecEvalExpr(state, GetPerTupleExprContext(estate), &row->tts_isnull[i]);
        }
        if (row->tts_isnull[i] && attribute->attnotnull)
            ereport(ERROR,
                    (errcode(ERRCODE_NOT_NULL_VIOLATION),
                     errmsg("null value in column \"%s\" of relation \"%s\" violates not-null "
                            "constraint",
                            NameStr(attribute->attname), RelationGetRelationName(table)),
                     errtablecol(table, i + 1)));
    }
    // The executor's memory goes with the caller's context: the row still points into it.
}

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
find_event_columns(TupleDesc desc, AttrNumber *columns)
{
    for (int i = 0; i < kEventColumns; i++)
    {
        int found = i;
        if (i >= desc->natts || !is_column(desc, i, kColumnNames[i]))
            for (found = 0; found < desc->natts && !is_column(desc, found, kColumnNames[i]);)
                found++;
        if (found >= desc->natts)
            ereport(ERROR,
                    (errcode(ERRCODE_UNDEFINED_COLUMN),
                     errmsg("a partition of outbox.events has no column \"%s\"", kColumnNames[i]),
                     errhint("Run ALTER EXTENSION outbox UPDATE, or restart PostgreSQL after an "
                             "update of the package.")));
        columns[i] = static_cast<AttrNumber>(found + 1);
    }
}

void
insert_event(int slot_number, Datum *values, bool *nulls)
{
    Relation relation = table_open(events_table(slot_number), RowExclusiveLock);
    if (!relation->rd_rel->relispartition)
        refuse_detached(slot_number);
    TupleDesc desc = RelationGetDescr(relation);
    AttrNumber columns[kEventColumns];
    find_event_columns(desc, columns);
    TupleTableSlot *slot = MakeSingleTupleTableSlot(desc, &TTSOpsVirtual);
    memset(slot->tts_isnull, true, static_cast<size_t>(desc->natts) * sizeof(bool));
    for (int i = 0; i < kEventColumns; i++)
    {
        slot->tts_values[columns[i] - 1] = values[i];
        slot->tts_isnull[columns[i] - 1] = nulls[i];
    }
    if (desc->natts > kEventColumns)
        fill_added_columns(relation, columns, slot);
    ExecStoreVirtualTuple(slot);
    insert_row(relation, slot);
    ExecDropSingleTupleTableSlot(slot);
    table_close(relation, NoLock);
}

} // namespace outbox
