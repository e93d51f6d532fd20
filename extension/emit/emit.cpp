// outbox.emit(), outbox.emit_bytes() and the trigger that makes a plain INSERT as good.

#include "event_checks.h"
#include "event_layout.h"
#include "event_numbers.h"
#include "transaction.h"

#include "extension/trust/own_relations.h"
#include "extension/trust/own_trigger.h"

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

// An operator who enables row level security relies on it.
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
    if (!PG_ARGISNULL(6))
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

    add_event(id, !take_made_id(id));
    insert_event(slot, values, nulls);
    PG_RETURN_UUID_P(id);
}

// A row that the trigger is given, taken apart.
struct NewRow
{
    HeapTuple tuple;
    TupleDesc desc;
    EventLayout layout;
    Datum *values;
    bool *nulls;

    Datum value(EventColumn column) const { return values[layout.place_of(column) - 1]; }
    bool is_null(EventColumn column) const { return nulls[layout.place_of(column) - 1]; }
    void set(EventColumn column, Datum value)
    {
        values[layout.place_of(column) - 1] = value;
        nulls[layout.place_of(column) - 1] = false;
    }
};

NewRow
new_row(const TriggerData *data)
{
    NewRow row = {};
    row.tuple = data->tg_trigtuple;
    row.desc = RelationGetDescr(data->tg_relation);
    row.layout = event_layout(data->tg_relation);
    const Size columns = static_cast<Size>(row.desc->natts);
    row.values = static_cast<Datum *>(palloc(columns * sizeof(Datum)));
    row.nulls = static_cast<bool *>(palloc(columns * sizeof(bool)));
    heap_deform_tuple(row.tuple, row.desc, row.values, row.nulls);
    return row;
}

// The row with what was set.
HeapTuple
changed(const NewRow &row)
{
    return heap_form_tuple(row.desc, row.values, row.nulls);
}

text *
text_column(const NewRow &row, EventColumn column)
{
    return row.is_null(column) ? nullptr : DatumGetTextPP(row.value(column));
}

Jsonb *
jsonb_column(const NewRow &row, EventColumn column)
{
    return row.is_null(column) ? nullptr : DatumGetJsonbP(row.value(column));
}

// A row with the numbers of its own: of a restored dump, or from insert_event(). A dump's
// transaction ids mean nothing here, so they are marked by their sign until the relay has looked at
// them; see bgworker/source/position/restore.cpp.
bool
has_numbers(const NewRow &row)
{
    return !row.is_null(kXid) && !row.is_null(kSeq);
}

// Below 0 until the relay has settled it; one that was settled in the dumped database comes as if
// the first transaction had written it.
HeapTuple
mark_restored(NewRow &row)
{
    note_restored_event_at_commit(DatumGetInt64(row.value(kSeq)));
    const int64 xid = DatumGetInt64(row.value(kXid));
    if (xid < 0)
        return row.tuple;
    row.set(kXid, Int64GetDatum(-Max(xid, 1)));
    return changed(row);
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
complete_row(NewRow &row)
{
    const EventInput event = event_of_row(row);
    check_event(event);

    Datum xid;
    Datum seq;
    stamp(event, &xid, &seq);
    row.set(kSeq, seq);
    row.set(kXid, xid);

    const TimestampTz now = GetCurrentTimestamp();
    pg_uuid_t made;
    if (row.is_null(kId))
    {
        make_event_id(now, &made);
        row.set(kId, UUIDPGetDatum(&made));
    }
    const pg_uuid_t *id = DatumGetUUIDP(row.value(kId));
    add_event(id, !take_made_id(id));
    if (row.is_null(kCreatedAt))
        row.set(kCreatedAt, TimestampTzGetDatum(now));
    else
        check_created_at(DatumGetTimestampTz(row.value(kCreatedAt)));
    return changed(row);
}

bool
may_write(Oid table, AttrNumber column)
{
    return pg_class_aclcheck(table, GetUserId(), ACL_INSERT) == ACLCHECK_OK ||
           pg_attribute_aclcheck(table, column, GetUserId(), ACL_INSERT) == ACLCHECK_OK;
}

// Nobody but the owner, and who has the right to all columns, may write these; and nobody
// restores a dump in a trigger.
bool
may_restore(const NewRow &row, Relation partition)
{
    const Oid all = own_relation("events");
    const auto writes = [&](EventColumn number)
    {
        const char *name =
            NameStr(TupleDescAttr(row.desc, row.layout.place_of(number) - 1)->attname);
        const AttrNumber place = get_attnum(all, name);
        return may_write(RelationGetRelid(partition), row.layout.place_of(number)) ||
               (place != InvalidAttrNumber && may_write(all, place));
    };
    return writes(kXid) && writes(kSeq);
}

// It may be restored only if nothing but the statement can have given it its numbers: whatever
// else has would never be published.
void
check_restored(const NewRow &row, const TriggerData *data, RowOf origin)
{
    constexpr const char *kDetail = "Only the rows of a dump have an xid and a seq already.";
    if (origin == RowOf::statement_in_trigger)
        ereport(ERROR, (errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
                        errmsg("an event that is inserted in a trigger must not have numbers"),
                        errdetail("%s", kDetail),
                        errhint("Leave out the columns xid and seq, or use outbox.emit().")));
    if (!may_restore(row, data->tg_relation))
        refuse_changed_numbers();
    const char *trigger = earlier_trigger(data);
    if (trigger != nullptr)
        ereport(ERROR,
                (errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
                 errmsg("an event has numbers that trigger \"%s\" of outbox.%s may have given it",
                        trigger, RelationGetRelationName(data->tg_relation)),
                 errdetail("%s", kDetail),
                 errhint("Leave the columns xid and seq alone in the trigger, and disable it "
                         "while a dump is restored.")));
}

// What a trigger changes after ours, nobody checks. A database that 0.2 made has ours in the
// middle until it is updated.
void
refuse_later_trigger(const TriggerData *data)
{
    const char *name = data->tg_trigger->tgname;
    const char *later = name[0] == '~' ? later_trigger(data) : nullptr;
    if (later != nullptr)
        ereport(ERROR,
                (errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
                 errmsg("trigger \"%s\" of outbox.%s would fire after the one of the extension",
                        later, RelationGetRelationName(data->tg_relation)),
                 errdetail("It could change the numbers by which events are published."),
                 errhint("Rename it: triggers fire in the order of their names, and the "
                         "extension's is \"%s\".",
                         name)));
}

// The row of emit(), which was checked before the triggers of others saw it.
HeapTuple
emitted_row(const NewRow &row)
{
    if (row.is_null(kId) || !is_being_inserted(DatumGetUUIDP(row.value(kId))))
        refuse_changed_id();
    check_event(event_of_row(row));
    if (!row.is_null(kCreatedAt))
        check_created_at(DatumGetTimestampTz(row.value(kCreatedAt)));
    return row.tuple;
}

HeapTuple
inserted_row(NewRow &row, const TriggerData *data)
{
    if (is_repeated(data))
        return row.tuple;
    refuse_later_trigger(data);
    const bool numbered = has_numbers(row);
    const RowOf origin =
        row_of(numbered, DatumGetInt64(row.value(kXid)), DatumGetInt64(row.value(kSeq)));
    if (!numbered)
        return complete_row(row);
    if (origin == RowOf::emit)
        return emitted_row(row);
    check_restored(row, data, origin);
    return mark_restored(row);
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
        const TriggerData *data = outbox::own_trigger(fcinfo, "before_event_insert", "events",
                                                      outbox::Firing::before_insert_row);
        outbox::NewRow row = outbox::new_row(data);
        outbox::require_usable(data->tg_relation);
        PG_RETURN_POINTER(outbox::inserted_row(row, data));
    }
}
