// Waiting for the relay: until an event is published, or all are.

#include "deadline.h"

#include "extension/emit/transaction.h"
#include "extension/server/rolled_back.h"
#include "extension/shared/subscription_slots.h"
#include "extension/trust/kept_statement.h"
#include "extension/trust/own_relations.h"

namespace outbox
{

namespace
{

constexpr long kLookAgainMs = 1000;

struct Awaited
{
    const char *subscription; // null: `default`
    Datum xid;                // of an event
    Datum seq;
    Datum id;
};

const Oid kIdTypes[] = {UUIDOID};
const Oid kPlaceTypes[] = {INT8OID, INT8OID};
const Oid kStatusTypes[] = {UUIDOID, TEXTOID};
const Oid kNameTypes[] = {TEXTOID};

// In functions with a search_path of their own, so in plain SQL.
KeptStatement find_by_id = {"select e.xid, e.seq from outbox.events e where e.id = $1",
                            "look up an event", 1, kIdTypes, nullptr};

// These two are for the subscription `default`. Before 0.3 outbox.deliveries has no column
// `subscription`: the name is that of `o` then.
KeptStatement find_passed = {
    "select from outbox.current_position p, (select 'default'::text as subscription) o "
    "where (outbox.visible_in($1, p.from_snapshot) "
    " or ($2 <= p.last_seq and outbox.visible_in($1, p.to_snapshot))) "
    "and not exists (select from outbox.deliveries d "
    " where d.seq = $2 and subscription = 'default')",
    "look at the position", 2, kPlaceTypes, nullptr};
KeptStatement find_unpublished = {
    "select from (select 'default'::text as subscription) o where not exists "
    " (select from outbox.deliveries d where subscription = 'default' "
    "  and d.state = any ('{RETRYING,WAITING}')) "
    "and not exists (select from outbox.events e where e.xid < 0) "
    "and case when exists (select from outbox.current_position) then not exists ("
    " select from outbox.current_position p where exists (select from outbox.events e "
    "  where e.xid >= pg_snapshot_xmax(p.from_snapshot)::text::bigint "
    "  and not (e.seq <= p.last_seq and outbox.visible_in(e.xid, p.to_snapshot))) "
    " or exists (select from outbox.events e where e.xid = any (array("
    "   select x::text::bigint from pg_snapshot_xip(p.from_snapshot) x)) "
    "  and not (e.seq <= p.last_seq and outbox.visible_in(e.xid, p.to_snapshot)))) "
    "else not exists (select from outbox.events) end",
    "look for unpublished events", 0, nullptr, nullptr};

// For another one.
KeptStatement find_status = {"select s.status from outbox.delivery_status s "
                             "where s.event_id = $1 and s.subscription = $2",
                             "look at the status of an event", 2, kStatusTypes, nullptr};
KeptStatement find_unpublished_of = {
    "select from (select p.from_snapshot, p.to_snapshot, p.last_seq "
    " from outbox.relay_position p where p.subscription = $1 "
    " and p.system_identifier = outbox.system_identifier() and p.database_oid = "
    "  (select d.oid from pg_database d where d.datname = current_database()) "
    " and p.xmin = p.written_by::xid) p where not exists "
    " (select from outbox.deliveries d where d.subscription = $1 "
    "  and d.state = any ('{RETRYING,WAITING}')) "
    "and not exists (select from outbox.events e where e.xid < 0) "
    "and not exists (select from outbox.events e "
    "  where e.xid >= pg_snapshot_xmax(p.from_snapshot)::text::bigint "
    "  and not (e.seq <= p.last_seq and outbox.visible_in(e.xid, p.to_snapshot))) "
    "and not exists (select from outbox.events e where e.xid = any (array("
    "   select x::text::bigint from pg_snapshot_xip(p.from_snapshot) x)) "
    "  and not (e.seq <= p.last_seq and outbox.visible_in(e.xid, p.to_snapshot)))",
    "look for unpublished events", 1, kNameTypes, nullptr};
KeptStatement find_subscriptions = {
    "select s.name, s.detached_at is null from outbox.subscriptions s "
    "where $1 is null or s.name = $1 order by s.name",
    "look for subscriptions", 1, kNameTypes, nullptr};

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
find_event(Datum event_id, Awaited *place)
{
    if (!select_row(&find_by_id, &event_id))
        return false;
    place->xid = result_column(1);
    place->seq = result_column(2);
    place->id = event_id;
    return true;
}

// The position moves while the caller's statement runs, so each look needs a new snapshot. It also
// passes events that were set aside.
bool
is_published(Awaited &place)
{
    // The relay gives a restored event other numbers when it settles it.
    if (DatumGetInt64(place.xid) < 0 && !find_event(place.id, &place))
        return false;
    Datum values[] = {place.xid, place.seq};
    const bool published = select_row(&find_passed, values);
    SPI_freetuptable(SPI_tuptable);
    return published;
}

void
raise_not_sent(const Awaited &place, bool missed)
{
    ereport(ERROR,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
             errmsg("subscription \"%s\" does not send event %s", place.subscription,
                    DatumGetCString(DirectFunctionCall1(uuid_out, place.id))),
             missed ? errdetail("It was detached when the event was committed.")
                    : errdetail("The event is of a type that it does not take, or from before it "
                                "began."),
             errhint("See outbox.event_deliveries().")));
}

// As above, of another subscription than `default`.
bool
is_sent(Awaited &place)
{
    Datum values[] = {place.id, CStringGetTextDatum(place.subscription)};
    if (!select_row(&find_status, values))
        return false; // either of them is gone
    char *status = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
    const bool missed = strcmp(status, "MISSED") == 0;
    if (missed || strcmp(status, "NOT_TAKEN") == 0)
        raise_not_sent(place, missed);
    const bool sent = strcmp(status, "PUBLISHED") == 0;
    SPI_freetuptable(SPI_tuptable);
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

using Condition = bool (*)(Awaited &place);

// A look at the tables, which holds nothing afterwards.
bool
look(Condition condition, Awaited &place)
{
    return rolled_back(
        [&]
        {
            connect_spi();
            const bool holds = condition(place);
            finish_spi();
            return holds;
        });
}

// That of the subscription; null: it has none now.
RelayEntry *
relay_of(const Awaited &place)
{
    DatabaseSlot *slot = find_slot(MyDatabaseId);
    if (slot == nullptr || place.subscription == nullptr)
        return slot == nullptr ? nullptr : &slot->relay;
    SubscriptionSlot *found = find_subscription(*slot, place.subscription);
    return found == nullptr ? nullptr : &found->relay;
}

// Sleeps until the relay has written its position since `seen` were counted, a second at most.
void
sleep_for(RelayEntry *relay, uint64 seen, long ms)
{
    static uint32 wait_event = 0;
    if (wait_event == 0)
        wait_event = named_wait_event("OutboxWaitPublished");
    const long at_most = Min(ms, kLookAgainMs);
    if (relay == nullptr)
    {
        // Not preloaded: no relay in this server; a restart may still bring one. Or the launcher
        // has not started it yet.
        (void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, at_most,
                         wait_event);
        ResetLatch(MyLatch);
    }
    else
    {
        note_waiting(relay);
        // Only from here on is a broadcast heard: the end of the look's subtransaction ends it.
        ConditionVariablePrepareToSleep(&relay->position_written);
        if (pg_atomic_read_u64(&relay->positions) == seen)
            (void) ConditionVariableTimedSleep(&relay->position_written, at_most, wait_event);
        ConditionVariableCancelSleep();
    }
    CHECK_FOR_INTERRUPTS();
}

bool
wait_for(Condition condition, Awaited place, const Deadline &deadline)
{
    for (;;)
    {
        RelayEntry *relay = relay_of(place);
        const uint64 seen = relay != nullptr ? pg_atomic_read_u64(&relay->positions) : 0;
        const bool holds = look(condition, place);
        const long left = deadline.milliseconds_left();
        if (holds || left == 0)
            return holds;
        sleep_for(relay, seen, left);
    }
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

// Of what is committed by now. A restored event that is not settled counts as unpublished, a FAILED
// one does not: it waits for an operator.
bool
nothing_is_unpublished(Awaited &of)
{
    Datum name = of.subscription == nullptr ? 0 : CStringGetTextDatum(of.subscription);
    const bool drained = of.subscription == nullptr ? select_row(&find_unpublished, nullptr)
                                                    : select_row(&find_unpublished_of, &name);
    SPI_freetuptable(SPI_tuptable);
    return drained;
}

// Adds those of this name besides `default` that are attached; null: all. A database that is older
// than the library has no such table.
void
add_subscriptions(const char *name, MemoryContext outer, List *&found)
{
    if (!OidIsValid(find_own_relation("subscriptions")))
        return;
    Datum value = name == nullptr ? 0 : CStringGetTextDatum(name);
    const char nulls[] = {name == nullptr ? 'n' : ' ', '\0'};
    connect_spi();
    const uint64 count = run_statement(&find_subscriptions, &value, nulls, SPI_OK_SELECT, false, 0);
    for (uint64 i = 0; i < count; i++)
    {
        bool is_null;
        const HeapTuple row = SPI_tuptable->vals[i];
        const MemoryContext inner = MemoryContextSwitchTo(outer);
        char *found_name = SPI_getvalue(row, SPI_tuptable->tupdesc, 1);
        if (DatumGetBool(SPI_getbinval(row, SPI_tuptable->tupdesc, 2, &is_null)))
            found = lappend(found, pstrdup(found_name));
        else if (name != nullptr)
            ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                            errmsg("subscription \"%s\" is detached", name),
                            errhint("It sends nothing before outbox.attach_subscription().")));
        (void) MemoryContextSwitchTo(inner);
    }
    finish_spi();
}

// Holds nothing afterwards.
List *
named_subscriptions(const char *name)
{
    List *found = NIL;
    const MemoryContext outer = CurrentMemoryContext;
    (void) rolled_back(
        [&]
        {
            add_subscriptions(name, outer, found);
            return true;
        });
    return found;
}

// Raises undefined_object unless there is one of this name.
char *
existing_subscription(Datum argument)
{
    char *name = text_to_cstring(DatumGetTextPP(argument));
    if (strcmp(name, "default") == 0)
        return nullptr;
    if (named_subscriptions(name) == NIL)
        ereport(ERROR,
                (errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("there is no subscription \"%s\"", name),
                 errhint("The view outbox.subscription_status shows which there are.")));
    return name;
}

// One after the other: what commits meanwhile is not asked for.
bool
drain_all(const Deadline &deadline)
{
    bool drained = wait_for(nothing_is_unpublished, {}, deadline);
    ListCell *cell;
    foreach (cell, named_subscriptions(nullptr))
    {
        Awaited of = {};
        of.subscription = static_cast<char *>(lfirst(cell));
        drained = drained && wait_for(nothing_is_unpublished, of, deadline);
    }
    return drained;
}

void
require_timeout(FunctionCallInfo fcinfo)
{
    if (PG_ARGISNULL(0))
        ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("timeout must not be null"),
                        errhint("Pass how long to wait, for example '1 min'.")));
    refuse_unfit_transaction("drain");
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
    OUTBOX_FUNCTION(outbox_drain);
    OUTBOX_FUNCTION(outbox_drain_one);

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

    Datum outbox_drain(PG_FUNCTION_ARGS)
    {
        outbox::require_timeout(fcinfo);
        PG_RETURN_BOOL(outbox::drain_all(outbox::deadline_after(PG_GETARG_DATUM(0))));
    }

    Datum outbox_drain_one(PG_FUNCTION_ARGS)
    {
        outbox::require_timeout(fcinfo);
        const outbox::Deadline deadline = outbox::deadline_after(PG_GETARG_DATUM(0));
        if (PG_ARGISNULL(1))
            PG_RETURN_BOOL(outbox::drain_all(deadline));
        outbox::Awaited of = {};
        of.subscription = outbox::existing_subscription(PG_GETARG_DATUM(1));
        PG_RETURN_BOOL(outbox::wait_for(outbox::nothing_is_unpublished, of, deadline));
    }
}
