#include "extension/core/uuid7.h"

#include "direct_insert.h"
#include "kept_table.h"

#include "extension/server/pg_insert.h"
#include "extension/shared/lock_spaces.h"
#include "extension/shared/settings.h"
#include "extension/trust/own_relations.h"

extern "C"
{
#include "common/hashfn.h"
#include "parser/parse_coerce.h"
#include "rewrite/rewriteHandler.h"
#include "utils/fmgrprotos.h"
}

namespace outbox
{

namespace
{

Uuid7Generator generator;
pg_uuid_t last_made;
bool last_is_taken = true;

// Random bytes are drawn in bulk: one call for many ids.
struct RandomPool
{
    uint8 bytes[2048];
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

// A row that insert_event() is at. Triggers of the table can emit events themselves, so there may
// be several, one in a trigger of the other; each is on the stack of its insert_event(), and gone
// with it, however it ends.
struct BeingInserted
{
    int64 xid;
    int64 seq;
    pg_uuid_t id;
    int depth;   // of triggers around insert_event(); our trigger is one deeper
    bool passed; // our trigger has seen it
    BeingInserted *outer;
};
BeingInserted *being_inserted = nullptr;

int
trigger_depth()
{
    return DatumGetInt32(DirectFunctionCall1(pg_trigger_depth, static_cast<Datum>(0)));
}

// The null of a domain, which has to be checked; nothing for other types.
Node *
null_of_domain(const Form_pg_attribute attribute)
{
    int32 modifier = attribute->atttypmod;
    const Oid base = getBaseTypeAndTypmod(attribute->atttypid, &modifier);
    if (base == attribute->atttypid)
        return nullptr;
    Const *null = makeConst(base, modifier, attribute->attcollation, attribute->attlen,
                            static_cast<Datum>(0), true, attribute->attbyval);
    return coerce_to_domain(reinterpret_cast<Node *>(null), base, modifier, attribute->atttypid,
                            COERCION_IMPLICIT, COERCE_IMPLICIT_CAST, -1, false);
}

// Columns that were added, as INSERT fills them when it does not name them.
void
fill_defaults(Relation table, const EventLayout &layout, TupleTableSlot *row, EState *estate)
{
    const TupleDesc desc = RelationGetDescr(table);
    ExprContext *context = GetPerTupleExprContext(estate);
    for (int i = 0; i < desc->natts; i++)
    {
        const Form_pg_attribute attribute = TupleDescAttr(desc, i);
        bool ours = attribute->attisdropped || attribute->attgenerated != '\0';
        for (int n = 0; n < kEventColumns && !ours; n++)
            ours = layout.place[n] == attribute->attnum;
        if (ours)
            continue;
        Node *expression = build_column_default(table, attribute->attnum);
        if (expression == nullptr)
            expression = null_of_domain(attribute);
        if (expression == nullptr)
            continue;
        ExprState *state = ExecPrepareExpr(reinterpret_cast<Expr *>(expression), estate);
        row->tts_values[i] = ExecEvalExpr(state, context, &row->tts_isnull[i]);
    }
}

// Which column it is in another partition, from 0 on, or -1. A dropped one is in none.
int
column_like(TupleDesc desc, const Form_pg_attribute wanted)
{
    for (int i = 0; i < desc->natts && !wanted->attisdropped; i++)
    {
        const Form_pg_attribute attribute = TupleDescAttr(desc, i);
        if (!attribute->attisdropped && attribute->atttypid == wanted->atttypid &&
            strcmp(NameStr(attribute->attname), NameStr(wanted->attname)) == 0)
            return i;
    }
    return -1;
}

int64
number(TupleTableSlot *row, const EventLayout &layout, EventColumn column)
{
    bool is_null;
    const Datum value = slot_getattr(row, layout.place_of(column), &is_null);
    return is_null ? 0 : DatumGetInt64(value);
}

// Our own trigger lets the row pass; those that come after it must leave its numbers as they are.
void
insert_in_frame(Relation table, const EventLayout &layout, TupleTableSlot *row, EState *estate)
{
    bool no_id;
    const Datum id = slot_getattr(row, layout.place_of(kId), &no_id);
    BeingInserted frame = {number(row, layout, kXid),
                           number(row, layout, kSeq),
                           *DatumGetUUIDP(id),
                           trigger_depth(),
                           false,
                           being_inserted};
    being_inserted = &frame;
    PG_TRY();
    {
        insert_by_rules(table, row, estate);
    }
    PG_FINALLY();
    {
        being_inserted = frame.outer;
    }
    PG_END_TRY();
    if (number(row, layout, kXid) != frame.xid || number(row, layout, kSeq) != frame.seq)
        refuse_changed_numbers();
}

// With the constraints, defaults, generated columns and row triggers of the table.
void
insert_with_rules(Relation table, const EventLayout &layout, TupleTableSlot *row)
{
    EState *estate = CreateExecutorState();
    MemoryContext outer = MemoryContextSwitchTo(GetPerTupleMemoryContext(estate));
    fill_defaults(table, layout, row, estate);
    (void) MemoryContextSwitchTo(outer);
    ExecStoreVirtualTuple(row);
    row->tts_tableOid = RelationGetRelid(table);
    insert_in_frame(table, layout, row, estate);
    FreeExecutorState(estate);
}

// Of an event, into the columns that are ours; all others are null.
void
fill(TupleTableSlot *row, const EventLayout &layout, const Datum *values, const bool *nulls)
{
    memset(row->tts_isnull, true,
           sizeof(bool) * static_cast<size_t>(row->tts_tupleDescriptor->natts));
    for (int i = 0; i < kEventColumns; i++)
    {
        row->tts_values[layout.place[i] - 1] = values[i];
        row->tts_isnull[layout.place[i] - 1] = nulls[i];
    }
}

// The row as a tuple, which saves the table the copies that it makes of a virtual one. The slot is
// one for tuples, and to be cleared before the memory context is reset.
void
make_tuple(TupleTableSlot *row)
{
    HeapTuple tuple = heap_form_tuple(row->tts_tupleDescriptor, row->tts_values, row->tts_isnull);
    ExecStoreHeapTuple(tuple, row, true);
}

void
insert_into(KeptTable *kept, const Datum *values, const bool *nulls)
{
    kept->busy = true;
    fill(kept->row, kept->layout, values, nulls);
    make_tuple(kept->row);
    insert_row(kept->table, kept->row, &kept->indexes);
    ExecClearTuple(kept->row);
    kept->busy = false;
}

} // namespace

void
lock_key(const text *aggregate_type, const text *key)
{
    if (!settings.serialize_keys)
        return;
    // A hash collision only makes two keys wait for each other.
    const uint64 type_hash =
        hash_bytes_extended(reinterpret_cast<const unsigned char *>(VARDATA_ANY(aggregate_type)),
                            VARSIZE_ANY_EXHDR(aggregate_type), 0);
    const uint64 hash =
        hash_bytes_extended(reinterpret_cast<const unsigned char *>(VARDATA_ANY(key)),
                            VARSIZE_ANY_EXHDR(key), type_hash);
    LOCKTAG tag;
    SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, static_cast<uint32>(hash >> 32),
                         static_cast<uint32>(hash), kLocksOfEventKeys);
    (void) LockAcquire(&tag, ExclusiveLock, false, false);
}

void
make_event_id(TimestampTz now, pg_uuid_t *id)
{
    if (!generator.next((now + kUnixEpochOffsetUs) * 1000, random_bytes(), id->data))
        ereport(ERROR, (errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
                        errmsg("the system clock is outside the range of event ids")));
    last_made = *id;
    last_is_taken = false;
}

bool
take_made_id(const pg_uuid_t *id)
{
    if (last_is_taken || memcmp(id, &last_made, sizeof(*id)) != 0)
        return false;
    last_is_taken = true;
    return true;
}

void
insert_event(int slot_number, Datum *values, bool *nulls)
{
    const Oid oid = events_table(slot_number);
    KeptTable *kept = kept_table(oid);
    if (kept != nullptr)
        return insert_into(kept, values, nulls);
    Relation table = table_open(oid, RowExclusiveLock);
    require_usable(table);
    const EventLayout layout = event_layout(table);
    TupleTableSlot *row = MakeSingleTupleTableSlot(
        RelationGetDescr(table), layout.plain ? &TTSOpsHeapTuple : &TTSOpsVirtual);
    fill(row, layout, values, nulls);
    if (layout.plain)
    {
        make_tuple(row);
        insert_row(table, row);
    }
    else
        insert_with_rules(table, layout, row);
    ExecDropSingleTupleTableSlot(row);
    table_close(table, NoLock);
}

RowOf
row_of(bool numbered, int64 xid, int64 seq)
{
    const int depth = trigger_depth();
    BeingInserted *frame = being_inserted;
    if (frame == nullptr || frame->passed || depth != frame->depth + 1)
        return depth > 1 ? RowOf::statement_in_trigger : RowOf::statement;
    if (!numbered || xid != frame->xid || seq != frame->seq)
        refuse_changed_numbers();
    frame->passed = true;
    return RowOf::emit;
}

void
refuse_changed_numbers()
{
    ereport(ERROR, (errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
                    errmsg("a trigger of outbox.events has changed the numbers of an event"),
                    errdetail("Events are ordered and published by their xid and seq."),
                    errhint("Leave the columns xid and seq alone in the trigger.")));
    pg_unreachable();
}

bool
is_being_inserted(const pg_uuid_t *id)
{
    return being_inserted != nullptr && memcmp(id, &being_inserted->id, sizeof(*id)) == 0;
}

void
refuse_changed_id()
{
    ereport(ERROR, (errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
                    errmsg("a trigger of outbox.events has changed the id of an event"),
                    errdetail("outbox.emit() returns the id that it gave the event."),
                    errhint("Leave the column id alone in the trigger, or give emit() the id.")));
    pg_unreachable();
}

void
copy_event(Relation from, TupleTableSlot *row, int to)
{
    Relation table = table_open(events_table(to), RowExclusiveLock);
    const EventLayout layout = event_layout(table);
    const TupleDesc source = RelationGetDescr(from);
    const TupleDesc desc = RelationGetDescr(table);
    slot_getallattrs(row);
    TupleTableSlot *target = MakeSingleTupleTableSlot(desc, &TTSOpsVirtual);
    for (int i = 0; i < desc->natts; i++)
    {
        const int column = column_like(source, TupleDescAttr(desc, i));
        target->tts_isnull[i] = column < 0 || row->tts_isnull[column];
        if (!target->tts_isnull[i])
            target->tts_values[i] = row->tts_values[column];
    }
    target->tts_values[layout.place_of(kSlot) - 1] = Int16GetDatum(static_cast<int16>(to));
    ExecStoreVirtualTuple(target);
    insert_row(table, target);
    ExecDropSingleTupleTableSlot(target);
    table_close(table, NoLock);
}

} // namespace outbox
