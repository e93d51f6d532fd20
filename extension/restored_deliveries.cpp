// The trigger that keeps restored rows of outbox.deliveries apart.

#include "direct_insert.h"
#include "kept_statement.h"
#include "own_relations.h"
#include "shared_state.h"

namespace outbox
{

namespace
{

// Columns of outbox.deliveries, as attribute numbers; sql/deliveries.sql is the other side.
constexpr int kDeliverySeq = 1;
constexpr int kDeliveryXid = 2;
constexpr int kDeliveryEventId = 4;

const Oid kEventTypes[] = {INT8OID, INT8OID, UUIDOID};

KeptStatement find_event = {"select from outbox.events e where e.xid operator(pg_catalog.=) $1 "
                            "and e.seq operator(pg_catalog.=) $2 "
                            "and e.id operator(pg_catalog.=) $3",
                            "look up an event", 3, kEventTypes, nullptr};

bool
is_relay()
{
    DatabaseSlot *slot = find_slot(MyDatabaseId);
    return slot != nullptr &&
           pg_atomic_read_u32(&slot->relay_pid) == static_cast<uint32>(MyProcPid);
}

// Numbers alone say nothing: a dump's are those of another database.
bool
belongs_to_event_here(HeapTuple row, TupleDesc desc)
{
    Datum values[3];
    const int columns[] = {kDeliveryXid, kDeliverySeq, kDeliveryEventId};
    for (int i = 0; i < 3; i++)
    {
        bool is_null;
        values[i] = heap_getattr(row, columns[i], desc, &is_null);
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
    if (RelationGetNumberOfAttributes(relation) != desc->natts)
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("outbox.restored_deliveries has not the columns of "
                               "outbox.deliveries")));
    TupleTableSlot *slot = MakeSingleTupleTableSlot(RelationGetDescr(relation), &TTSOpsVirtual);
    heap_deform_tuple(row, desc, slot->tts_values, slot->tts_isnull);
    ExecStoreVirtualTuple(slot);
    insert_row(relation, slot);
    ExecDropSingleTupleTableSlot(slot);
    table_close(relation, NoLock);
}

} // namespace

} // namespace outbox

extern "C"
{
    OUTBOX_FUNCTION(outbox_before_delivery_insert);

    Datum outbox_before_delivery_insert(PG_FUNCTION_ARGS)
    {
        if (!CALLED_AS_TRIGGER(fcinfo))
            ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
                            errmsg("outbox.before_delivery_insert() is a trigger function"),
                            errhint("It belongs to outbox.deliveries and is not to be called.")));
        TriggerData *data = reinterpret_cast<TriggerData *>(fcinfo->context);
        TupleDesc desc = RelationGetDescr(data->tg_relation);
        if (!TRIGGER_FIRED_BEFORE(data->tg_event) || !TRIGGER_FIRED_BY_INSERT(data->tg_event) ||
            !TRIGGER_FIRED_FOR_ROW(data->tg_event) ||
            strcmp(SPI_getrelname(data->tg_relation), "deliveries") != 0)
            ereport(ERROR,
                    (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
                     errmsg("outbox.before_delivery_insert() must be fired before insert for "
                            "each row of outbox.deliveries")));
        HeapTuple row = data->tg_trigtuple;
        if (outbox::is_relay() || outbox::belongs_to_event_here(row, desc))
            PG_RETURN_POINTER(row);
        outbox::set_apart(row, desc);
        PG_RETURN_POINTER(nullptr);
    }
}
