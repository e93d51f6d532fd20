// Waiting for the relay: until an event is published, or all are.

#include "kept_statement.h"
#include "shared_state.h"
#include "transaction.h"

namespace outbox
{

namespace
{

// Not earlier than now means the timeout has passed.
long
milliseconds_left(TimestampTz deadline)
{
    return TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline);
}

struct EventPlace
{
    Datum xid;
    Datum seq;
    Datum id;
};

const Oid kIdTypes[] = {UUIDOID};
const Oid kPlaceTypes[] = {INT8OID, INT8OID};

KeptStatement find_by_id = {"select e.xid, e.seq from outbox.events e "
                            "where e.id operator(pg_catalog.=) $1",
                            "look up an event", 1, kIdTypes, nullptr};

KeptStatement look_at_position = {"select from outbox.current_position p "
                                  "where (outbox.visible_in($1, p.from_snapshot) "
                                  "or ($2 operator(pg_catalog.<=) p.last_seq "
                                  "and outbox.visible_in($1, p.to_snapshot))) "
                                  "and not exists (select from outbox.deliveries d "
                                  "where d.seq operator(pg_catalog.=) $2)",
                                  "look at the position", 2, kPlaceTypes, nullptr};

KeptStatement look_for_unpublished = {
    "select where not exists (select from outbox.deliveries d "
    " where d.state operator(pg_catalog.=) any ('{RETRYING,WAITING}')) "
    "and not exists (select from outbox.events e where e.xid operator(pg_catalog.<) 0) "
    "and case when exists (select from outbox.current_position) then not exists ("
    " select from outbox.current_position p where exists (select from outbox.events e "
    "  where e.xid operator(pg_catalog.>=) "
    "   pg_catalog.pg_snapshot_xmax(p.from_snapshot)::text::bigint "
    "  and not (e.seq operator(pg_catalog.<=) p.last_seq "
    "   and outbox.visible_in(e.xid, p.to_snapshot))) "
    " or exists (select from outbox.events e where e.xid operator(pg_catalog.=) any (array("
    "   select x::text::bigint from pg_catalog.pg_snapshot_xip(p.from_snapshot) x)) "
    "  and not (e.seq operator(pg_catalog.<=) p.last_seq "
    "   and outbox.visible_in(e.xid, p.to_snapshot)))) "
    "else not exists (select from outbox.events) end",
    "look for unpublished events", 0, nullptr, nullptr};

// Runs a query of one row at most, with a snapshot of its own.
bool
select_row(KeptStatement *statement, Datum *values)
{
    return run_statement(statement, values, nullptr, SPI_OK_SELECT, false, 1) == 1;
}

Datum
result_column(int number)
{
    bool is_null;
    return SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, number, &is_null);
}

bool
find_event(Datum event_id, EventPlace *place)
{
    if (!select_row(&find_by_id, &event_id))
        return false;
    *place = {result_column(1), result_column(2), event_id};
    return true;
}

// The position moves while the caller's statement runs, so each look needs a new snapshot. It also
// passes events that were set aside.
bool
is_published(EventPlace &place)
{
    // The relay gives a restored event other numbers when it settles it.
    if (DatumGetInt64(place.xid) < 0 && !find_event(place.id, &place))
        return false;
    Datum values[] = {place.xid, place.seq};
    const bool published = select_row(&look_at_position, values);
    SPI_freetuptable(SPI_tuptable);
    return published;
}

void
raise_unknown_event(Datum event_id)
{
    ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
                    errmsg("there is no event with id %s",
                           DatumGetCString(DirectFunctionCall1(uuid_out, event_id))),
                    errdetail("Published events are removed after outbox.retention."),
                    errhint("Call outbox.wait_published() after the transaction that emitted the "
                            "event has committed.")));
}

void
refuse_unfit_transaction(const char *function)
{
    if (IsolationUsesXactSnapshot())
        ereport(ERROR,
                (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                 errmsg("outbox.%s() does not work in a %s transaction", function,
                        XactIsoLevel == XACT_SERIALIZABLE ? "serializable" : "repeatable read"),
                 errhint("Call it in a READ COMMITTED transaction: the others do not see "
                         "what happens after they began.")));
    if (transaction_has_emitted())
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("outbox.%s() called in a transaction that emitted events", function),
                        errhint("Commit first: nothing is published before.")));
}

using Condition = bool (*)(EventPlace &place);

// Looks whenever the relay has written its position, and once a second. Between SPI_connect() and
// SPI_finish().
bool
wait_for(Condition condition, EventPlace place, TimestampTz deadline)
{
    DatabaseSlot *slot = find_slot(MyDatabaseId);
    if (slot != nullptr)
        ConditionVariablePrepareToSleep(&slot->position_written);
    static uint32 wait_event = 0;
    if (wait_event == 0)
        wait_event = named_wait_event("OutboxWaitPublished");
    bool holds = false;
    for (;;)
    {
        holds = condition(place);
        const long left = milliseconds_left(deadline);
        if (holds || left <= 0)
            break;
        if (slot != nullptr)
            (void) ConditionVariableTimedSleep(&slot->position_written, Min(left, 1000L),
                                               wait_event);
        else
        {
            // Not preloaded: no relay in this server; a restart may still bring one.
            (void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
                             Min(left, 1000L), wait_event);
            ResetLatch(MyLatch);
        }
        CHECK_FOR_INTERRUPTS();
    }
    ConditionVariableCancelSleep();
    return holds;
}

bool
wait_published(Datum event_id, TimestampTz deadline)
{
    EventPlace place;
    connect_spi();
    if (!find_event(event_id, &place))
        raise_unknown_event(event_id);
    const bool published = wait_for(is_published, place, deadline);
    finish_spi();
    return published;
}

// Of what is committed by now. A restored event that is not settled counts as unpublished, a FAILED
// one does not: it waits for a person.
bool
nothing_is_unpublished(EventPlace &)
{
    const bool drained = select_row(&look_for_unpublished, nullptr);
    SPI_freetuptable(SPI_tuptable);
    return drained;
}

bool
drain(TimestampTz deadline)
{
    connect_spi();
    const bool drained = wait_for(nothing_is_unpublished, {}, deadline);
    finish_spi();
    return drained;
}

TimestampTz
deadline_after(Datum timeout)
{
    return DatumGetTimestampTz(DirectFunctionCall2(
        timestamptz_pl_interval, TimestampTzGetDatum(GetCurrentTimestamp()), timeout));
}

} // namespace

} // namespace outbox

extern "C"
{
    OUTBOX_FUNCTION(outbox_wait_published);
    OUTBOX_FUNCTION(outbox_drain);

    Datum outbox_wait_published(PG_FUNCTION_ARGS)
    {
        if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
            ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
                            errmsg("%s must not be null", PG_ARGISNULL(0) ? "event_id" : "timeout"),
                            errhint("Pass the id that outbox.emit() returned.")));
        outbox::refuse_unfit_transaction("wait_published");
        PG_RETURN_BOOL(
            outbox::wait_published(PG_GETARG_DATUM(0), outbox::deadline_after(PG_GETARG_DATUM(1))));
    }

    Datum outbox_drain(PG_FUNCTION_ARGS)
    {
        if (PG_ARGISNULL(0))
            ereport(ERROR,
                    (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("timeout must not be null"),
                     errhint("Pass how long to wait, for example '1 min'.")));
        outbox::refuse_unfit_transaction("drain");
        PG_RETURN_BOOL(outbox::drain(outbox::deadline_after(PG_GETARG_DATUM(0))));
    }
}
