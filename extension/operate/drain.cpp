// Waiting until all that is committed is published.

#include "waiting.h"

namespace outbox
{

namespace
{

const Oid kNameTypes[] = {TEXTOID};

// In functions with a search_path of their own, so in plain SQL. By `default`. Before 0.3
// outbox.deliveries has no column `subscription`: the name is that of `o` then.
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

// By another one.
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

// Of what is committed by now. A restored event that is not settled counts as unpublished, a FAILED
// one does not: it waits for an operator.
bool
nothing_is_unpublished(Awaited &of)
{
    if (of.subscription != nullptr)
        require_attached(of);
    Datum name = of.subscription == nullptr ? 0 : CStringGetTextDatum(of.subscription);
    const bool drained = of.subscription == nullptr ? select_row(&find_unpublished, nullptr)
                                                    : select_row(&find_unpublished_of, &name);
    SPI_freetuptable(SPI_tuptable);
    return drained;
}

void
refuse_detached_default()
{
    if (default_is_detached())
        raise_detached("default");
}

// Null: `default`, which passes what it has not sent when it is detached meanwhile.
bool
drain_one(const char *name, const Deadline &deadline)
{
    Awaited of = {};
    of.subscription = name;
    const bool drained = wait_for(nothing_is_unpublished, of, deadline);
    if (name == nullptr)
        refuse_detached_default();
    return drained;
}

// Those that are attached now, one after the other: what commits meanwhile is not asked for.
bool
drain_all(const Deadline &deadline)
{
    List *others = named_subscriptions(nullptr);
    bool drained = default_is_detached() || drain_one(nullptr, deadline);
    ListCell *cell;
    foreach (cell, others)
        drained = drained && drain_one(static_cast<char *>(lfirst(cell)), deadline);
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

} // namespace

} // namespace outbox

extern "C"
{
    OUTBOX_FUNCTION(outbox_drain);
    OUTBOX_FUNCTION(outbox_drain_one);

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
        const char *name = outbox::existing_subscription(PG_GETARG_DATUM(1));
        if (name == nullptr)
            outbox::refuse_detached_default();
        PG_RETURN_BOOL(outbox::drain_one(name, deadline));
    }
}
