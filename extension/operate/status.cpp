// What a session can see of the relay, and of the database that it works for.

#include "extension/emit/transaction.h"
#include "extension/server/control_file.h"
#include "extension/server/result_row.h"
#include "extension/shared/shared_state.h"

extern "C"
{
#include "access/xlog_internal.h"
}

namespace outbox
{

namespace
{

bool
is_template_database()
{
    HeapTuple row = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(MyDatabaseId));
    if (!HeapTupleIsValid(row))
        return false;
    const bool is_template = reinterpret_cast<Form_pg_database>(GETSTRUCT(row))->datistemplate;
    ReleaseSysCache(row);
    return is_template;
}

// Why this database has no place for a relay, as far as is known here.
void
explain_absence(RelayReport *report)
{
    if (shared_state() == nullptr)
        return;
    if (RecoveryInProgress())
        snprintf(report->last_error, sizeof(report->last_error),
                 "this server is a standby: the primary publishes until this one is promoted");
    else if (is_template_database())
        snprintf(report->last_error, sizeof(report->last_error),
                 "this database is a template, and templates have no relay");
    else if (all_slots_taken())
        snprintf(report->last_error, sizeof(report->last_error),
                 "all %d places for databases are in use", most_databases());
}

// PostgreSQL says so in its log only, at its start.
void
explain_no_launcher(RelayReport *report)
{
    if (shared_state() == nullptr || pg_atomic_read_u32(&shared_state()->launcher_proc) != 0)
        return;
    snprintf(report->last_error, sizeof(report->last_error),
             "no launcher is running, which starts relays: unless the server has started just now "
             "there was no free background worker for it; raise max_worker_processes and restart "
             "PostgreSQL");
}

RelayReport
read_report(DatabaseSlot *slot)
{
    RelayReport report = {};
    if (slot == nullptr)
        explain_absence(&report);
    else
        report = report_of(&slot->relay);
    if (report.state == RelayState::absent && report.last_error[0] == '\0')
        explain_no_launcher(&report);
    return report;
}

const char *
shown_state(const RelayReport &report)
{
    if (shared_state() == nullptr)
        return "not_preloaded";
    return relay_state_name(report.state);
}

// 0 while the relay's process has no session yet: pg_stat_activity does not show it either, and
// pg_terminate_backend() does not find it.
int32
shown_pid(DatabaseSlot *slot)
{
    if (slot == nullptr)
        return 0;
    const int32 pid = static_cast<int32>(pg_atomic_read_u32(&slot->relay.pid));
    return pid == 0 || BackendPidGetProc(pid) == nullptr ? 0 : pid;
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
        TupleDesc desc = result_type(fcinfo, 0);
        DatabaseSlot *slot = find_slot(MyDatabaseId);
        const RelayReport report = read_report(slot);
        const int32 pid = shown_pid(slot);

        ResultRow row;
        row.add_text(shown_state(report));
        row.add(Int32GetDatum(pid), pid == 0);
        const bool counted =
            slot != nullptr && pg_atomic_read_u32(&slot->relay.backlog_counted) != 0;
        row.add(Int64GetDatum(counted ? backlog_of(slot) : 0),
                !counted || report.state == RelayState::absent);
        row.add_time(report.oldest_event_at);
        row.add(Int32GetDatum(report.in_flight_events));
        row.add(Int64GetDatum(report.in_flight_bytes));
        row.add(Int64GetDatum(static_cast<int64>(report.published)));
        row.add_time(report.last_published_at);
        row.add(Int32GetDatum(report.consecutive_failures));
        row.add_time(report.next_attempt_at);
        row.add_text_or_null(report.last_error);
        row.add_time(report.last_error_at);
        row.add_text_or_null(report.config_error);
        PG_RETURN_DATUM(row.as_datum(desc));
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
        PG_RETURN_INT64(outbox::directory_identity(outbox::control_file_identity()));
    }

    Datum outbox_timeline(PG_FUNCTION_ARGS)
    {
        (void) fcinfo;
        PreventCommandDuringRecovery("outbox.timeline()");
        PG_RETURN_INT32(static_cast<int32>(outbox::insertion_timeline()));
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
        else
        {
            if (outbox::claim_slot(MyDatabaseId) == nullptr)
                ereport(WARNING,
                        (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
                         errmsg("no relay for this database yet: all %d places for databases are "
                                "in use",
                                outbox::most_databases()),
                         errhint("Events are kept until another database gives its place back: "
                                 "drop the extension where it is not needed.")));
            outbox::request_relay_at_commit();
        }
        PG_RETURN_VOID();
    }
}
