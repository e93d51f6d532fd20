// outbox.emit(), outbox.emit_bytes() and the trigger that makes a plain INSERT as good.

#include "event_checks.h"
#include "event_table.h"
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

Datum
column(HeapTuple row, TupleDesc desc, EventColumn number, bool *is_null)
{
    return heap_getattr(row, number, desc, is_null);
}

text *
text_column(HeapTuple row, TupleDesc desc, EventColumn number)
{
    bool is_null;
    const Datum value = column(row, desc, number, &is_null);
    return is_null ? nullptr : DatumGetTextPP(value);
}

Jsonb *
jsonb_column(HeapTuple row, TupleDesc desc, EventColumn number)
{
    bool is_null;
    const Datum value = column(row, desc, number, &is_null);
    return is_null ? nullptr : DatumGetJsonbP(value);
}

bool
is_null_column(HeapTuple row, TupleDesc desc, EventColumn number)
{
    bool is_null;
    (void) column(row, desc, number, &is_null);
    return is_null;
}

// A restored dump brings its own numbers; nobody but the owner may write these columns. Its
// transaction ids mean nothing here, so they are marked by their sign until the relay has looked at
// them; see bgworker/publishing/restore.cpp.
bool
is_restored(HeapTuple row, TupleDesc desc)
{
    return !is_null_column(row, desc, kSeq) && !is_null_column(row, desc, kXid);
}

HeapTuple
mark_restored(HeapTuple row, TupleDesc desc)
{
    bool is_null;
    const int64 xid = DatumGetInt64(column(row, desc, kXid, &is_null));
    if (xid <= 0)
        return row;
    int columns[] = {kXid};
    Datum values[] = {Int64GetDatum(-xid)};
    bool nulls[] = {false};
    return heap_modify_tuple_by_cols(row, desc, 1, columns, values, nulls);
}

EventInput
event_of_row(HeapTuple row, TupleDesc desc)
{
    EventInput event = {};
    event.aggregate_type = text_column(row, desc, kAggregateType);
    event.aggregate_id = text_column(row, desc, kAggregateId);
    event.event_type = text_column(row, desc, kEventType);
    event.partition_key = text_column(row, desc, kPartitionKey);
    event.payload = jsonb_column(row, desc, kPayload);
    event.payload_bytes = reinterpret_cast<bytea *>(text_column(row, desc, kPayloadBytes));
    event.headers = jsonb_column(row, desc, kHeaders);
    return event;
}

HeapTuple
complete_row(HeapTuple row, TupleDesc desc)
{
    const EventInput event = event_of_row(row, desc);
    check_event(event);

    Datum values[5];
    bool nulls[5] = {};
    int columns[5] = {kSeq, kXid};
    int count = 2;
    stamp(event, &values[1], &values[0]);

    bool is_null;
    const TimestampTz now = GetCurrentTimestamp();
    const Datum given = column(row, desc, kId, &is_null);
    pg_uuid_t made;
    if (is_null)
    {
        make_event_id(now, &made);
        columns[count] = kId;
        values[count++] = UUIDPGetDatum(&made);
        note_emitted(nullptr);
    }
    else
    {
        const pg_uuid_t *id = DatumGetUUIDP(given);
        note_emitted(made_last(id) ? nullptr : id);
    }
    const Datum created_at = column(row, desc, kCreatedAt, &is_null);
    if (is_null)
    {
        columns[count] = kCreatedAt;
        values[count++] = TimestampTzGetDatum(now);
    }
    else if (TIMESTAMP_NOT_FINITE(DatumGetTimestampTz(created_at)))
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("created_at must be finite"),
                 errhint("Leave it out to have the time of the insert.")));
    return heap_modify_tuple_by_cols(row, desc, count, columns, values, nulls);
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
        HeapTuple row = data->tg_trigtuple;
        TupleDesc desc = RelationGetDescr(data->tg_relation);
        if (!TRIGGER_FIRED_BEFORE(data->tg_event) || !TRIGGER_FIRED_BY_INSERT(data->tg_event) ||
            !TRIGGER_FIRED_FOR_ROW(data->tg_event) || desc->natts != outbox::kEventColumns)
            ereport(ERROR,
                    (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
                     errmsg("outbox.before_event_insert() must be fired before insert for each "
                            "row of outbox.events")));
        row = outbox::is_restored(row, desc) ? outbox::mark_restored(row, desc)
                                             : outbox::complete_row(row, desc);
        PG_RETURN_POINTER(row);
    }
}
