// Waiting for the relay: until an event is published, or all are.

#include "extension/emit/transaction.h"
#include "extension/server/arguments.h"
#include "extension/server/rolled_back.h"
#include "extension/shared/shared_state.h"
#include "extension/trust/kept_statement.h"

namespace outbox
{

namespace
{

// A waiting session holds its statement's snapshot, which holds VACUUM back.
constexpr int64 kLongestWaitUs = USECS_PER_DAY;
constexpr long kLookAgainMs = 1000;

// By the steady clock.
class Deadline
{
public:
    explicit Deadline(int64 us) : us_(us) { INSTR_TIME_SET_CURRENT(begin_); }

    // 0: it has passed.
    long milliseconds_left() const
    {
        instr_time now;
        INSTR_TIME_SET_CURRENT(now);
        INSTR_TIME_SUBTRACT(now, begin_);
        const int64 left = us_ - static_cast<int64>(INSTR_TIME_GET_MICROSEC(now));
        return left <= 0 ? 0 : static_cast<long>((left + 999) / 1000);
    }

private:
    instr_time begin_;
    int64 us_;
};

struct EventPlace
{
    Datum xid;
    Datum seq;
    Datum id;
};

const Oid kIdTypes[] = {UUIDOID};
const Oid kPlaceTypes[] = {INT8OID, INT8OID};

// In functions with a search_path of their own, so in plain SQL.
KeptStatement find_by_id = {"select e.xid, e.seq from outbox.events e where e.id = $1",
                            "look up an event", 1, kIdTypes, nullptr};

// Both are for the subscription `default`. Before 0.3 outbox.deliveries has no column
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
    const bool published = select_row(&find_passed, values);
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

// A look at the tables, which holds nothing afterwards.
bool
look(Condition condition, EventPlace &place)
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

// Sleeps until the relay has written its position since `seen` were counted, a second at most.
void
sleep_for(DatabaseSlot *slot, uint64 seen, long ms)
{
    static uint32 wait_event = 0;
    if (wait_event == 0)
        wait_event = named_wait_event("OutboxWaitPublished");
    const long at_most = Min(ms, kLookAgainMs);
    if (slot == nullptr)
    {
        // Not preloaded: no relay in this server; a restart may still bring one.
        (void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, at_most,
                         wait_event);
        ResetLatch(MyLatch);
    }
    else
    {
        note_waiting(&slot->relay);
        // Only from here on is a broadcast heard: the end of the look's subtransaction ends it.
        ConditionVariablePrepareToSleep(&slot->relay.position_written);
        if (pg_atomic_read_u64(&slot->relay.positions) == seen)
            (void) ConditionVariableTimedSleep(&slot->relay.position_written, at_most, wait_event);
        ConditionVariableCancelSleep();
    }
    CHECK_FOR_INTERRUPTS();
}

bool
wait_for(Condition condition, EventPlace place, const Deadline &deadline)
{
    DatabaseSlot *slot = find_slot(MyDatabaseId);
    for (;;)
    {
        const uint64 seen = slot != nullptr ? pg_atomic_read_u64(&slot->relay.positions) : 0;
        const bool holds = look(condition, place);
        const long left = deadline.milliseconds_left();
        if (holds || left == 0)
            return holds;
        sleep_for(slot, seen, left);
    }
}

bool
wait_published(Datum event_id, const Deadline &deadline)
{
    EventPlace place = {};
    place.id = event_id;
    const Condition find = [](EventPlace &found) { return find_event(found.id, &found); };
    if (!look(find, place))
        raise_unknown_event(event_id);
    return wait_for(is_published, place, deadline);
}

// Of what is committed by now. A restored event that is not settled counts as unpublished, a FAILED
// one does not: it waits for an operator.
bool
nothing_is_unpublished(EventPlace &)
{
    const bool drained = select_row(&find_unpublished, nullptr);
    SPI_freetuptable(SPI_tuptable);
    return drained;
}

Deadline
deadline_after(Datum timeout)
{
    const int64 us = microseconds_of(timeout, 2 * kLongestWaitUs);
    if (us > kLongestWaitUs)
        ereport(
            ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
             errmsg("timeout must not be longer than a day"),
             errdetail("It is %s.", DatumGetCString(DirectFunctionCall1(interval_out, timeout))),
             errhint("Call it again, in another statement: while one waits, VACUUM keeps "
                     "the rows that it sees.")));
    return Deadline(us);
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
        PG_RETURN_BOOL(outbox::wait_for(outbox::nothing_is_unpublished, {},
                                        outbox::deadline_after(PG_GETARG_DATUM(0))));
    }
}
