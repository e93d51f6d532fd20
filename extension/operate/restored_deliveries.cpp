// The triggers that keep restored rows of outbox.deliveries apart, and that tell the relay when the
// last rows of a dump may have come.

#include "extension/emit/direct_insert.h"
#include "extension/emit/transaction.h"
#include "extension/shared/subscription_slots.h"
#include "extension/trust/kept_statement.h"
#include "extension/trust/own_relations.h"
#include "extension/trust/own_trigger.h"

namespace outbox
{

namespace
{

// Of an event, in the order of find_event's parameters.
constexpr const char *kEventNumbers[] = {"xid", "seq", "event_id"};
const Oid kEventTypes[] = {INT8OID, INT8OID, UUIDOID};

KeptStatement find_event = {"select from outbox.events e where e.xid operator(pg_catalog.=) $1 "
                            "and e.seq operator(pg_catalog.=) $2 "
                            "and e.id operator(pg_catalog.=) $3",
                            "look up an event", 3, kEventTypes, nullptr};

// Which column it is, from 0 on, or -1. A dropped one is in none.
int
column_of(TupleDesc desc, const char *name, Oid type)
{
    for (int i = 0; i < desc->natts; i++)
    {
        const Form_pg_attribute attribute = TupleDescAttr(desc, i);
        if (!attribute->attisdropped && attribute->atttypid == type &&
            strcmp(NameStr(attribute->attname), name) == 0)
            return i;
    }
    return -1;
}

// Where in `from` each column of `to` is; -1 for a dropped one. Raises
// object_not_in_prerequisite_state unless both have the same columns, whatever their order.
int *
match_columns(TupleDesc from, TupleDesc to)
{
    int *places = static_cast<int *>(palloc(sizeof(int) * static_cast<size_t>(to->natts)));
    int unmatched = 0;
    for (int i = 0; i < from->natts; i++)
        unmatched += TupleDescAttr(from, i)->attisdropped ? 0 : 1;
    bool same = true;
    for (int i = 0; i < to->natts; i++)
    {
        const Form_pg_attribute attribute = TupleDescAttr(to, i);
        places[i] = -1;
        if (attribute->attisdropped)
            continue;
        places[i] = column_of(from, NameStr(attribute->attname), attribute->atttypid);
        same = same && places[i] >= 0;
        unmatched--;
    }
    if (!same || unmatched != 0)
        ereport(
            ERROR,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
             errmsg("outbox.restored_deliveries does not have the columns of outbox.deliveries"),
             errhint("Give both tables the columns that the extension made.")));
    return places;
}

// Numbers alone say nothing: a dump's are those of another database.
bool
belongs_to_event_here(HeapTuple row, TupleDesc desc)
{
    Datum values[3];
    for (int i = 0; i < 3; i++)
    {
        const int place = column_of(desc, kEventNumbers[i], kEventTypes[i]);
        if (place < 0)
            ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                            errmsg("outbox.deliveries has no column \"%s\" of type %s",
                                   kEventNumbers[i], format_type_be(kEventTypes[i])),
                            errhint("Undo what was done to the table.")));
        bool is_null;
        values[i] = heap_getattr(row, place + 1, desc, &is_null);
        if (is_null)
            return true; // the table refuses it
    }
    connect_spi();
    const bool found = run_statement(&find_event, values, nullptr, SPI_OK_SELECT, false, 1) > 0;
    finish_spi();
    return found;
}

void
set_apart(HeapTuple row, TupleDesc desc)
{
    Relation relation = table_open(own_relation("restored_deliveries"), RowExclusiveLock);
    const TupleDesc target = RelationGetDescr(relation);
    const int *places = match_columns(desc, target);
    TupleTableSlot *slot = MakeSingleTupleTableSlot(target, &TTSOpsVirtual);
    for (int i = 0; i < target->natts; i++)
    {
        slot->tts_isnull[i] = true;
        if (places[i] >= 0)
            slot->tts_values[i] = heap_getattr(row, places[i] + 1, desc, &slot->tts_isnull[i]);
    }
    ExecStoreVirtualTuple(slot);
    insert_row(relation, slot);
    ExecDropSingleTupleTableSlot(slot);
    table_close(relation, NoLock);
    note_restored_rows_at_commit();
}

// Which of the tables that have a dump's last rows the trigger is of.
const char *
table_of_dump(FunctionCallInfo fcinfo)
{
    constexpr const char *kTables[] = {"relay_position", "dump_rows", "restored_deliveries"};
    if (CALLED_AS_TRIGGER(fcinfo))
        for (const char *table : kTables)
            if (strcmp(RelationGetRelationName(
                           reinterpret_cast<TriggerData *>(fcinfo->context)->tg_relation),
                       table) == 0)
                return table;
    return kTables[0]; // it is no trigger of ours
}

} // namespace

} // namespace outbox

extern "C"
{
    OUTBOX_FUNCTION(outbox_before_delivery_insert);

    Datum outbox_before_delivery_insert(PG_FUNCTION_ARGS)
    {
        const TriggerData *data = outbox::own_trigger(
            fcinfo, "before_delivery_insert", "deliveries", outbox::Firing::before_insert_row);
        TupleDesc desc = RelationGetDescr(data->tg_relation);
        HeapTuple row = data->tg_trigtuple;
        if (outbox::is_relay_here() || outbox::belongs_to_event_here(row, desc))
            PG_RETURN_POINTER(row);
        outbox::set_apart(row, desc);
        PG_RETURN_POINTER(nullptr);
    }

    OUTBOX_FUNCTION(outbox_after_dump_insert);

    Datum outbox_after_dump_insert(PG_FUNCTION_ARGS)
    {
        (void) outbox::own_trigger(fcinfo, "after_dump_insert", outbox::table_of_dump(fcinfo),
                                   outbox::Firing::any);
        if (!outbox::is_relay_here())
            outbox::note_restored_rows_at_commit();
        PG_RETURN_POINTER(nullptr);
    }
}
