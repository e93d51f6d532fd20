// What a session can see of the relay: its state, and whether an event is published.

#include "shared_state.h"
#include "transaction.h"

#include <sys/stat.h>

extern "C"
{
#include "access/xlog_internal.h"
}

namespace outbox
{

namespace
{

constexpr int kStateColumns = 13;

struct Row
{
    Datum values[kStateColumns];
    bool nulls[kStateColumns];
    int used;
};

void
add(Row *row, Datum value)
{
    row->values[row->used++] = value;
}

void
add_time(Row *row, TimestampTz time)
{
    row->nulls[row->used] = time == 0;
    row->values[row->used++] = TimestampTzGetDatum(time);
}

void
add_text(Row *row, const char *value)
{
    row->nulls[row->used] = value[0] == '\0';
    row->values[row->used++] = CStringGetTextDatum(value);
}

RelayReport
read_report(DatabaseSlot *slot)
{
    RelayReport report = {};
    if (slot == nullptr)
        return report;
    SpinLockAcquire(&slot->mutex);
    report = slot->report;
    SpinLockRelease(&slot->mutex);
    if (pg_atomic_read_u32(&slot->relay_proc) == 0 && report.state != RelayState::stopped &&
        report.state != RelayState::starting)
        report.state = RelayState::absent;
    return report;
}

// Events of the relay's open window that are not acknowledged, and those committed after it was
// opened. Exact whenever the relay has caught up; close to it in between.
int64
backlog_of(DatabaseSlot *slot, const RelayReport &report)
{
    const uint64 emitted = pg_atomic_read_u64(&slot->emitted);
    return report.window_remaining + static_cast<int64>(emitted - report.emitted_mark);
}

const char *
shown_state(const RelayReport &report)
{
    if (shared_state() == nullptr)
        return "not_preloaded";
    return relay_state_name(report.state);
}

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
};

SPIPlanPtr
prepared(SPIPlanPtr *plan, const char *statement, int count, Oid *types)
{
    if (*plan == nullptr)
    {
        SPIPlanPtr fresh = SPI_prepare(statement, count, types);
        if (fresh == nullptr || SPI_keepplan(fresh) != 0)
            ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR),
                            errmsg("could not prepare the look-up of an event: %s",
                                   SPI_result_code_string(SPI_result))));
        *plan = fresh;
    }
    return *plan;
}

// Runs a query of one row at most, with a snapshot of its own.
bool
select_row(SPIPlanPtr plan, Datum *values)
{
    const int result = SPI_execute_plan(plan, values, nullptr, false, 1);
    if (result != SPI_OK_SELECT)
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR),
                        errmsg("could not look up the event: %s", SPI_result_code_string(result))));
    return SPI_processed == 1;
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
    static SPIPlanPtr plan = nullptr;
    Oid types[] = {UUIDOID};
    if (!select_row(prepared(&plan,
                             "select e.xid, e.seq from outbox.events e "
                             "where e.id operator(pg_catalog.=) $1",
                             1, types),
                    &event_id))
        return false;
    *place = {result_column(1), result_column(2)};
    return true;
}

// The position moves while the caller's statement runs, so each look needs a new snapshot. It also
// passes events that were set aside.
bool
is_published(const EventPlace &place)
{
    static SPIPlanPtr plan = nullptr;
    Oid types[] = {INT8OID, INT8OID};
    Datum values[] = {place.xid, place.seq};
    const bool published = select_row(prepared(&plan,
                                               "select from outbox.current_position p "
                                               "where (outbox.visible_in($1, p.from_snapshot) "
                                               "or ($2 operator(pg_catalog.<=) p.last_seq "
                                               "and outbox.visible_in($1, p.to_snapshot))) "
                                               "and not exists (select from outbox.deliveries d "
                                               "where d.seq operator(pg_catalog.=) $2)",
                                               2, types),
                                      values);
    SPI_freetuptable(SPI_tuptable);
    return published;
}

void
raise_unknown_event(Datum event_id)
{
    ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
                    errmsg("there is no event with id %s",
                           DatumGetCString(DirectFunctionCall1(uuid_out, event_id))),
                    errhint("Call outbox.wait_published() after the transaction that emitted the "
                            "event has committed.")));
}

void
refuse_unfit_transaction()
{
    if (IsolationUsesXactSnapshot())
        ereport(ERROR,
                (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                 errmsg("outbox.wait_published() does not work in a %s transaction",
                        XactIsoLevel == XACT_SERIALIZABLE ? "serializable" : "repeatable read"),
                 errhint("Call it in a READ COMMITTED transaction: the others do not see "
                         "what happens after they began.")));
    if (transaction_has_emitted())
        ereport(ERROR,
                (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                 errmsg("outbox.wait_published() called in a transaction that emitted events"),
                 errhint("Commit first: nothing is published before.")));
}

bool
wait_published(Datum event_id, TimestampTz deadline)
{
    DatabaseSlot *slot = find_slot(MyDatabaseId);
    EventPlace place;
    bool published = false;
    SPI_connect();
    if (!find_event(event_id, &place))
        raise_unknown_event(event_id);
    if (slot != nullptr)
        ConditionVariablePrepareToSleep(&slot->position_written);
    for (;;)
    {
        published = is_published(place);
        const long left = milliseconds_left(deadline);
        if (published || left <= 0)
            break;
        if (slot != nullptr)
            (void) ConditionVariableTimedSleep(&slot->position_written, Min(left, 1000L),
                                               PG_WAIT_EXTENSION);
        else
        {
            // Not preloaded: no relay in this server; a restart may still bring one.
            (void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
                             Min(left, 1000L), PG_WAIT_EXTENSION);
            ResetLatch(MyLatch);
        }
        CHECK_FOR_INTERRUPTS();
    }
    ConditionVariableCancelSleep();
    SPI_finish();
    return published;
}

} // namespace

} // namespace outbox

extern "C"
{
    OUTBOX_FUNCTION(outbox_relay_state);
    OUTBOX_FUNCTION(outbox_visible_in);
    OUTBOX_FUNCTION(outbox_system_identifier);
    OUTBOX_FUNCTION(outbox_data_directory);
    OUTBOX_FUNCTION(outbox_timeline);
    OUTBOX_FUNCTION(outbox_wait_published);
    OUTBOX_FUNCTION(outbox_request_relay);
    OUTBOX_FUNCTION(outbox_notify_relay);

    Datum outbox_relay_state(PG_FUNCTION_ARGS)
    {
        using namespace outbox;
        TupleDesc desc;
        if (get_call_result_type(fcinfo, nullptr, &desc) != TYPEFUNC_COMPOSITE ||
            desc->natts != kStateColumns)
            ereport(ERROR,
                    (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                     errmsg("outbox.relay_state() does not have the columns that this library "
                            "expects"),
                     errhint("Run ALTER EXTENSION outbox UPDATE.")));
        DatabaseSlot *slot = find_slot(MyDatabaseId);
        const RelayReport report = read_report(slot);
        const uint32 pid = slot == nullptr ? 0 : pg_atomic_read_u32(&slot->relay_pid);

        Row row = {};
        add_text(&row, shown_state(report));
        row.nulls[row.used] = pid == 0;
        add(&row, Int32GetDatum(static_cast<int32>(pid)));
        row.nulls[row.used] = slot == nullptr || report.state == RelayState::absent;
        add(&row, Int64GetDatum(slot == nullptr ? 0 : backlog_of(slot, report)));
        add_time(&row, report.oldest_event_at);
        add(&row, Int32GetDatum(report.in_flight_events));
        add(&row, Int64GetDatum(report.in_flight_bytes));
        add(&row, Int64GetDatum(static_cast<int64>(report.published)));
        add_time(&row, report.last_published_at);
        add(&row, Int32GetDatum(report.consecutive_failures));
        add_time(&row, report.next_attempt_at);
        add_text(&row, report.last_error);
        add_time(&row, report.last_error_at);
        add_text(&row, report.config_error);
        PG_RETURN_DATUM(
            HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), row.values, row.nulls)));
    }

    Datum outbox_visible_in(PG_FUNCTION_ARGS)
    {
        const FullTransactionId xid =
            FullTransactionIdFromU64(static_cast<uint64>(PG_GETARG_INT64(0)));
        PG_RETURN_DATUM(DirectFunctionCall2(pg_visible_in_snapshot, FullTransactionIdGetDatum(xid),
                                            PG_GETARG_DATUM(1)));
    }

    Datum outbox_system_identifier(PG_FUNCTION_ARGS)
    {
        (void) fcinfo;
        PG_RETURN_INT64(static_cast<int64>(GetSystemIdentifier()));
    }

    Datum outbox_data_directory(PG_FUNCTION_ARGS)
    {
        (void) fcinfo;
        struct stat control_file;
        if (stat(XLOG_CONTROL_FILE, &control_file) != 0)
            ereport(ERROR, (errcode_for_file_access(),
                            errmsg("could not stat file \"%s\": %m", XLOG_CONTROL_FILE)));
        PG_RETURN_INT64(static_cast<int64>(control_file.st_ino));
    }

    Datum outbox_timeline(PG_FUNCTION_ARGS)
    {
        (void) fcinfo;
        PreventCommandDuringRecovery("outbox.timeline()");
        PG_RETURN_INT32(static_cast<int32>(GetWALInsertionTimeLine()));
    }

    Datum outbox_wait_published(PG_FUNCTION_ARGS)
    {
        if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
            ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
                            errmsg("%s must not be null", PG_ARGISNULL(0) ? "event_id" : "timeout"),
                            errhint("Pass the id that outbox.emit() returned.")));
        outbox::refuse_unfit_transaction();
        const TimestampTz deadline = DatumGetTimestampTz(
            DirectFunctionCall2(timestamptz_pl_interval, TimestampTzGetDatum(GetCurrentTimestamp()),
                                PG_GETARG_DATUM(1)));
        PG_RETURN_BOOL(outbox::wait_published(PG_GETARG_DATUM(0), deadline));
    }

    Datum outbox_notify_relay(PG_FUNCTION_ARGS)
    {
        (void) fcinfo;
        outbox::notify_relay_at_commit();
        PG_RETURN_VOID();
    }

    Datum outbox_request_relay(PG_FUNCTION_ARGS)
    {
        (void) fcinfo;
        if (outbox::shared_state() == nullptr)
            ereport(WARNING,
                    (errmsg("outbox is not preloaded: events are kept and nothing is published"),
                     errhint("Add outbox to shared_preload_libraries and restart "
                             "PostgreSQL.")));
        else if (outbox::take_slot(MyDatabaseId) == nullptr)
            ereport(WARNING, (errmsg("no relay for this database: all %d places are in use",
                                     outbox::kMaxDatabases)));
        else
            outbox::request_relay_at_commit();
        PG_RETURN_VOID();
    }
}
