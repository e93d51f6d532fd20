#include "backlog.h"

#include "transaction.h"

#include "extension/server/result_row.h"
#include "extension/shared/settings.h"
#include "extension/shared/shared_state.h"

namespace outbox
{

namespace
{

constexpr int kBacklogColumns = 5;
constexpr int kWarnEveryMs = 60 * 1000;

TimestampTz warned_at = 0;

// No word of Kafka: emitters may not see where and why it fails.
void
append_behind(StringInfo text, DatabaseSlot *slot)
{
    const RelayReport behind = report_of(&slot->relay);
    appendStringInfo(text, "The relay is %s", relay_state_name(behind.state));
    if (behind.oldest_event_at != 0)
        appendStringInfo(text, "; the oldest unpublished event is from %s",
                         timestamptz_to_str(behind.oldest_event_at));
    if (behind.last_published_at != 0)
        appendStringInfo(text, "; the last one was published at %s",
                         timestamptz_to_str(behind.last_published_at));
    appendStringInfoChar(text, '.');
}

void
refuse(DatabaseSlot *slot, int64 backlog, int64 mine)
{
    StringInfoData detail;
    initStringInfo(&detail);
    if (mine > 0)
        appendStringInfo(&detail, "This transaction has emitted " INT64_FORMAT " events. ", mine);
    append_behind(&detail, slot);
    ereport(ERROR, (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
                    errmsg("too many events wait to be published: " INT64_FORMAT
                           " of at most %d (outbox.max_backlog_events)",
                           backlog, settings.max_backlog_events),
                    errdetail_internal("%s", detail.data),
                    errhint("Try again when the relay has caught up.")));
}

void
warn(DatabaseSlot *slot, int64 backlog)
{
    const TimestampTz now = GetCurrentTimestamp();
    if (warned_at != 0 && !TimestampDifferenceExceeds(warned_at, now, kWarnEveryMs))
        return;
    warned_at = now;
    StringInfoData detail;
    initStringInfo(&detail);
    append_behind(&detail, slot);
    ereport(WARNING_CLIENT_ONLY, (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
                                  errmsg("many events wait to be published: " INT64_FORMAT
                                         " of at most %d (outbox.max_backlog_events)",
                                         backlog, settings.max_backlog_events),
                                  errdetail_internal("%s", detail.data)));
    pfree(detail.data);
}

const char *
level_name(int64 backlog, int64 limit)
{
    if (limit == 0)
        return "off";
    if (backlog >= limit)
        return "refusing";
    return backlog >= backlog_warning_level(limit) ? "warning" : "ok";
}

} // namespace

int64
backlog_warning_level(int64 limit)
{
    return limit - limit / 5;
}

void
check_backlog()
{
    const int64 limit = settings.max_backlog_events;
    if (limit == 0)
        return;
    DatabaseSlot *slot = own_slot();
    if (slot == nullptr)
        return;
    const int64 backlog = backlog_of(slot);
    const int64 mine = events_of_transaction();
    if (backlog + mine >= limit)
        refuse(slot, backlog, mine);
    else if (backlog + mine >= backlog_warning_level(limit))
        warn(slot, backlog);
}

} // namespace outbox

extern "C"
{
    OUTBOX_FUNCTION(outbox_backlog_state);

    Datum outbox_backlog_state(PG_FUNCTION_ARGS)
    {
        using namespace outbox;
        TupleDesc desc = result_type(fcinfo, kBacklogColumns);
        DatabaseSlot *slot = find_slot(MyDatabaseId);
        const int64 limit = settings.max_backlog_events;
        const int64 backlog = slot != nullptr ? backlog_of(slot) : 0;
        const bool counted =
            slot != nullptr && pg_atomic_read_u32(&slot->relay.backlog_counted) != 0;
        ResultRow row;
        row.add(Int32GetDatum(static_cast<int32>(limit)));
        row.add(Int64GetDatum(backlog_warning_level(limit)), limit == 0);
        row.add(Int64GetDatum(backlog));
        row.add(BoolGetDatum(counted));
        row.add_text(level_name(backlog, limit));
        PG_RETURN_DATUM(row.as_datum(desc));
    }
}
