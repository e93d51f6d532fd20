// Waiting for an event to be published.

#include "waiting.h"

#include "extension/trust/own_relations.h"

namespace outbox
{

namespace
{

const Oid kIdTypes[] = {UUIDOID};
const Oid kPlaceTypes[] = {INT8OID, INT8OID};
const Oid kStatusTypes[] = {UUIDOID, TEXTOID};

// In functions with a search_path of their own, so in plain SQL.
KeptStatement find_by_id = {"select e.xid, e.seq from outbox.events e where e.id = $1",
                            "look up an event", 1, kIdTypes, nullptr};

// By `default`. Before 0.3 outbox.deliveries has no column `subscription`: the name is that of `o`
// then.
KeptStatement find_passed = {
    "select from outbox.current_position p, (select 'default'::text as subscription) o "
    "where (outbox.visible_in($1, p.from_snapshot) "
    " or ($2 <= p.last_seq and outbox.visible_in($1, p.to_snapshot))) "
    "and not exists (select from outbox.deliveries d "
    " where d.seq = $2 and subscription = 'default')",
    "look at the position", 2, kPlaceTypes, nullptr};
// By another one.
KeptStatement find_status = {"select s.status from outbox.delivery_status s "
                             "where s.event_id = $1 and s.subscription = $2",
                             "look at the status of an event", 2, kStatusTypes, nullptr};

const Oid kTakesTypes[] = {INT8OID};
KeptStatement find_takes = {
    "select h.takes from outbox.subscription_history h "
    "where h.subscription = 'default' and not outbox.visible_in($1, h.since) "
    "order by h.number desc limit 1",
    "look at what is taken", 1, kTakesTypes, nullptr};

Datum
result_column(int number)
{
    bool is_null;
    return SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, number, &is_null);
}

bool
find_event(Datum event_id, Awaited *place)
{
    if (!select_row(&find_by_id, &event_id))
        return false;
    place->xid = result_column(1);
    place->seq = result_column(2);
    place->id = event_id;
    return true;
}

void
raise_not_sent(const Awaited &place, bool missed)
{
    const bool by_default = place.subscription == nullptr;
    ereport(ERROR,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
             errmsg("subscription \"%s\" does not send event %s",
                    by_default ? "default" : place.subscription,
                    DatumGetCString(DirectFunctionCall1(uuid_out, place.id))),
             missed ? errdetail("It was detached when the event was committed, or had not sent it "
                                "before.")
                    : errdetail("The event is of a type that it does not take, or from before it "
                                "began."),
             by_default ? errhint("Name a subscription that does: outbox.wait_published(event_id, "
                                  "timeout, subscription). See outbox.event_deliveries().")
                        : errhint("See outbox.event_deliveries().")));
}

// Whether `default` was detached. An older database has no such table.
bool
is_missed(const Awaited &place)
{
    Datum xid = place.xid;
    if (!OidIsValid(find_own_relation("subscription_history")))
        return false;
    const bool missed = select_row(&find_takes, &xid) && !DatumGetBool(result_column(1));
    SPI_freetuptable(SPI_tuptable);
    return missed;
}

// The position moves while the caller's statement runs, so each look needs a new snapshot. It also
// passes events that were set aside.
bool
is_published(Awaited &place)
{
    // The relay gives a restored event other numbers when it settles it.
    if (DatumGetInt64(place.xid) < 0 && !find_event(place.id, &place))
        return false;
    if (DatumGetInt64(place.xid) > 0 && is_missed(place))
        raise_not_sent(place, true);
    Datum values[] = {place.xid, place.seq};
    const bool published = select_row(&find_passed, values);
    SPI_freetuptable(SPI_tuptable);
    return published;
}

// As above, of another subscription than `default`.
bool
is_sent(Awaited &place)
{
    Datum values[] = {place.id, CStringGetTextDatum(place.subscription)};
    if (!select_row(&find_status, values))
    {
        require_attached(place);
        return false; // the event is gone
    }
    char *status = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
    const bool missed = strcmp(status, "MISSED") == 0;
    if (missed || strcmp(status, "NOT_TAKEN") == 0)
        raise_not_sent(place, missed);
    const bool sent = strcmp(status, "PUBLISHED") == 0;
    SPI_freetuptable(SPI_tuptable);
    if (!sent)
        require_attached(place); // what it has set aside is not MISSED
    return sent;
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

bool
wait_published(Datum event_id, const char *subscription, const Deadline &deadline)
{
    Awaited place = {};
    place.id = event_id;
    const Condition find = [](Awaited &found) { return find_event(found.id, &found); };
    if (!look(find, place))
        raise_unknown_event(event_id);
    place.subscription = subscription;
    return wait_for(subscription == nullptr ? is_published : is_sent, place, deadline);
}

void
require_event(FunctionCallInfo fcinfo)
{
    if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
        ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
                        errmsg("%s must not be null", PG_ARGISNULL(0) ? "event_id" : "timeout"),
                        errhint("Pass the id that outbox.emit() returned.")));
    refuse_unfit_transaction("wait_published");
}

} // namespace

} // namespace outbox

extern "C"
{
    OUTBOX_FUNCTION(outbox_wait_published);
    OUTBOX_FUNCTION(outbox_wait_published_by);

    Datum outbox_wait_published(PG_FUNCTION_ARGS)
    {
        outbox::require_event(fcinfo);
        PG_RETURN_BOOL(outbox::wait_published(PG_GETARG_DATUM(0), nullptr,
                                              outbox::deadline_after(PG_GETARG_DATUM(1))));
    }

    Datum outbox_wait_published_by(PG_FUNCTION_ARGS)
    {
        outbox::require_event(fcinfo);
        if (PG_ARGISNULL(2))
            ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
                            errmsg("subscription must not be null")));
        PG_RETURN_BOOL(outbox::wait_published(PG_GETARG_DATUM(0),
                                              outbox::existing_subscription(PG_GETARG_DATUM(2)),
                                              outbox::deadline_after(PG_GETARG_DATUM(1))));
    }
}
