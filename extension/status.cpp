// What a session can see of the relay, and of the database that it works for.

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

const char *
shown_state(const RelayReport &report)
{
    if (shared_state() == nullptr)
        return "not_preloaded";
    return relay_state_name(report.state);
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
        add(&row, Int64GetDatum(slot == nullptr ? 0 : backlog_of(slot)));
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
