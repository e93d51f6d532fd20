// outbox.emit(), outbox.emit_bytes() and the trigger that makes a plain INSERT as good.

#include "event_checks.h"
#include "event_layout.h"
#include "own_relations.h"
#include "transaction.h"

namespace outbox
{

namespace
{

text *
text_arg(FunctionCallInfo fcinfo, int n)
{
    return PG_ARGISNULL(n) ? nullptr : PG_GETARG_TEXT_PP(n);
}

void
refuse_where_nothing_can_be_written(const char *what)
{
    PreventCommandDuringRecovery(what);
    PreventCommandIfReadOnly(what);
    PreventCommandIfParallelMode(what);
}

// Whoever enables row level security relies on it.
void
refuse_policies(const char *what)
{
    if (policies_apply())
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("%s does not apply row-level security policies", what),
                        errdetail("They are enabled for outbox.events and apply to this role."),
                        errhint("Insert into outbox.events instead, which applies them.")));
}

void
set(Datum *values, bool *nulls, EventColumn column, Datum value)
{
    values[column - 1] = value;
    nulls[column - 1] = false;
}

void
set_varlena(Datum *values, bool *nulls, EventColumn column, void *value)
{
    if (value != nullptr)
        set(values, nulls, column, PointerGetDatum(value));
}

// The emission number comes last of what may wait: after the transaction id and the key's lock.
void
stamp(const EventInput &event, Datum *xid, Datum *seq)
{
    *xid = Int64GetDatum(static_cast<int64>(U64FromFullTransactionId(GetTopFullTransactionId())));
    lock_key(event.aggregate_type,
             event.partition_key != nullptr ? event.partition_key : event.aggregate_id);
    *seq = Int64GetDatum(next_seq());
}

Datum
emit(FunctionCallInfo fcinfo, const char *name, bool bytes)
{
    refuse_where_nothing_can_be_written(name);
    refuse_policies(name);

    EventInput event = {};
    event.aggregate_type = text_arg(fcinfo, 0);
    event.aggregate_id = text_arg(fcinfo, 1);
    event.event_type = text_arg(fcinfo, 2);
    if (!PG_ARGISNULL(3))
    {
        if (bytes)
            event.payload_bytes = PG_GETARG_BYTEA_PP(3);
        else
            event.payload = PG_GETARG_JSONB_P(3);
    }
    event.headers = PG_ARGISNULL(4) ? nullptr : PG_GETARG_JSONB_P(4);
    event.partition_key = text_arg(fcinfo, 5);
    check_event(event);

    const TimestampTz now = GetCurrentTimestamp();
    pg_uuid_t *id = static_cast<pg_uuid_t *>(palloc(sizeof(pg_uuid_t)));
    const bool chosen = !PG_ARGISNULL(6);
    if (chosen)
        *id = *PG_GETARG_UUID_P(6);
    else
        make_event_id(now, id);

    Datum values[kEventColumns] = {};
    bool nulls[kEventColumns];
    memset(nulls, true, sizeof(nulls));
    const int slot = current_slot();
    Datum xid;
    Datum seq;
    stamp(event, &xid, &seq);
    set(values, nulls, kSeq, seq);
    set(values, nulls, kXid, xid);
    set(values, nulls, kCreatedAt, TimestampTzGetDatum(now));
    set(values, nulls, kId, UUIDPGetDatum(id));
    set(values, nulls, kSlot, Int16GetDatum(static_cast<int16>(slot)));
    if (!PG_ARGISNULL(7))
        set(values, nulls, kSchemaVersion, PG_GETARG_DATUM(7));
    set_varlena(values, nulls, kAggregateType, event.aggregate_type);
    set_varlena(values, nulls, kAggregateId, event.aggregate_id);
    set_varlena(values, nulls, kEventType, event.event_type);
    set_varlena(values, nulls, kPartitionKey, event.partition_key);
    set_varlena(values, nulls, kPayload, event.payload);
    set_varlena(values, nulls, kPayloadBytes, event.payload_bytes);
    set_varlena(values, nulls, kHeaders, event.headers);

    note_emitted(chosen ? id : nullptr);
    insert_event(slot, values, nulls);
    PG_RETURN_UUID_P(id);
}

// A row that the trigger is given.
struct NewRow
{
    HeapTuple tuple;
    TupleDesc desc;
    EventLayout layout;
};

Datum
column(const NewRow &row, EventColumn number, bool *is_null)
{
    return heap_getattr(row.tuple, row.layout.place_of(number), row.desc, is_null);
}

text *
text_column(const NewRow &row, EventColumn number)
{
    bool is_null;
    const Datum value = column(row, number, &is_null);
    return is_null ? nullptr : DatumGetTextPP(value);
}

Jsonb *
jsonb_column(const NewRow &row, EventColumn number)
{
    bool is_null;
    const Datum value = column(row, number, &is_null);
    return is_null ? nullptr : DatumGetJsonbP(value);
}

// What is to be changed in it.
struct Changes
{
    int count;
    int columns[kEventColumns];
    Datum values[kEventColumns];
    bool nulls[kEventColumns];

    void set(const NewRow &row, EventColumn number, Datum value)
    {
        columns[count] = row.layout.place_of(number);
        values[count] = value;
        nulls[count++] = false;
    }
};

HeapTuple
changed(const NewRow &row, Changes &changes)
{
    return heap_modify_tuple_by_cols(row.tuple, row.desc, changes.count, changes.columns,
                                     changes.values, changes.nulls);
}

// A row with the numbers of its own: of a restored dump, or from insert_event(). Nobody but the
// owner may write these columns. A dump's transaction ids mean nothing here, so they are marked by
// their sign until the relay has looked at them; see bgworker/publishing/restore.cpp.
bool
has_numbers(const NewRow &row, int64 *xid, int64 *seq)
{
    bool no_xid;
    bool no_seq;
    *xid = DatumGetInt64(column(row, kXid, &no_xid));
    *seq = DatumGetInt64(column(row, kSeq, &no_seq));
    return !no_xid && !no_seq;
}

HeapTuple
mark_restored(const NewRow &row, int64 xid)
{
    if (xid <= 0)
        return row.tuple;
    Changes changes = {};
    changes.set(row, kXid, Int64GetDatum(-xid));
    return changed(row, changes);
}

EventInput
event_of_row(const NewRow &row)
{
    EventInput event = {};
    event.aggregate_type = text_column(row, kAggregateType);
    event.aggregate_id = text_column(row, kAggregateId);
    event.event_type = text_column(row, kEventType);
    event.partition_key = text_column(row, kPartitionKey);
    event.payload = jsonb_column(row, kPayload);
    event.payload_bytes = reinterpret_cast<bytea *>(text_column(row, kPayloadBytes));
    event.headers = jsonb_column(row, kHeaders);
    return event;
}

// Kafka's headers have it in the form of RFC 3339, which has four digits for the year.
void
check_created_at(TimestampTz created_at)
{
    constexpr int64 kYear1 = -730119 * USECS_PER_DAY; // from 2000-01-01 on
    constexpr int64 kYear10000 = 2921940 * USECS_PER_DAY;
    const char *problem = nullptr;
    if (TIMESTAMP_NOT_FINITE(created_at))
        problem = "must be finite";
    else if (created_at < kYear1 || created_at >= kYear10000)
        problem = "must be in the years 1 to 9999";
    if (problem != nullptr)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("created_at %s", problem),
                        errhint("Leave it out to have the time of the insert.")));
}

HeapTuple
complete_row(const NewRow &row)
{
    const EventInput event = event_of_row(row);
    check_event(event);

    Changes changes = {};
    Datum xid;
    Datum seq;
    stamp(event, &xid, &seq);
    changes.set(row, kSeq, seq);
    changes.set(row, kXid, xid);

    bool is_null;
    const TimestampTz now = GetCurrentTimestamp();
    const Datum given = column(row, kId, &is_null);
    pg_uuid_t made;
    if (is_null)
    {
        make_event_id(now, &made);
        changes.set(row, kId, UUIDPGetDatum(&made));
        note_emitted(nullptr);
    }
    else
    {
        const pg_uuid_t *id = DatumGetUUIDP(given);
        note_emitted(made_last(id) ? nullptr : id);
    }
    const Datum created_at = column(row, kCreatedAt, &is_null);
    if (is_null)
        changes.set(row, kCreatedAt, TimestampTzGetDatum(now));
    else
        check_created_at(DatumGetTimestampTz(created_at));
    return changed(row, changes);
}

HeapTuple
inserted_row(const NewRow &row)
{
    int64 xid;
    int64 seq;
    if (!has_numbers(row, &xid, &seq))
        return complete_row(row);
    return is_being_inserted(xid, seq) ? row.tuple : mark_restored(row, xid);
}

} // namespace

} // namespace outbox

extern "C"
{
    OUTBOX_FUNCTION(outbox_emit);
    OUTBOX_FUNCTION(outbox_emit_bytes);
    OUTBOX_FUNCTION(outbox_uuid_v7);
    OUTBOX_FUNCTION(outbox_current_slot);
    OUTBOX_FUNCTION(outbox_before_event_insert);

    Datum outbox_emit(PG_FUNCTION_ARGS)
    {
        return outbox::emit(fcinfo, "outbox.emit()", false);
    }

    Datum outbox_emit_bytes(PG_FUNCTION_ARGS)
    {
        return outbox::emit(fcinfo, "outbox.emit_bytes()", true);
    }

    Datum outbox_uuid_v7(PG_FUNCTION_ARGS)
    {
        (void) fcinfo;
        pg_uuid_t *id = static_cast<pg_uuid_t *>(palloc(sizeof(pg_uuid_t)));
        outbox::make_event_id(GetCurrentTimestamp(), id);
        PG_RETURN_UUID_P(id);
    }

    Datum outbox_current_slot(PG_FUNCTION_ARGS)
    {
        (void) fcinfo;
        PG_RETURN_INT16(static_cast<int16>(outbox::current_slot()));
    }

    Datum outbox_before_event_insert(PG_FUNCTION_ARGS)
    {
        if (!CALLED_AS_TRIGGER(fcinfo))
            ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
                            errmsg("outbox.before_event_insert() is a trigger function"),
                            errhint("It belongs to outbox.events and is not to be called.")));
        TriggerData *data = reinterpret_cast<TriggerData *>(fcinfo->context);
        if (!TRIGGER_FIRED_BEFORE(data->tg_event) || !TRIGGER_FIRED_BY_INSERT(data->tg_event) ||
            !TRIGGER_FIRED_FOR_ROW(data->tg_event))
            ereport(ERROR,
                    (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
                     errmsg("outbox.before_event_insert() must be fired before insert for each "
                            "row of outbox.events")));
        const outbox::NewRow row = {data->tg_trigtuple, RelationGetDescr(data->tg_relation),
                                    outbox::event_layout(data->tg_relation)};
        outbox::require_usable(data->tg_relation);
        PG_RETURN_POINTER(outbox::inserted_row(row));
    }
}
