// Functions on subscriptions: which options they have, what their relays are doing, and their end.
#include <cstring>

#include "extension/core/type_pattern.h"
#include "extension/shared/sink_libraries.h"
#include "extension/shared/subscription_options.h"

#include "extension/server/arguments.h"
#include "extension/server/result_row.h"
#include "extension/server/text_view.h"
#include "extension/shared/lock_spaces.h"
#include "extension/shared/subscription_slots.h"
#include "extension/trust/own_trigger.h"

extern "C"
{
#include "storage/lmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
}

namespace outbox
{

namespace
{

constexpr long kEndMs = 10 * 1000;
constexpr long kLookMs = 20;

void
put_row(ReturnSetInfo *result, ResultRow &row)
{
    HeapTupleHeader tuple = DatumGetHeapTupleHeader(row.as_datum(result->setDesc));
    HeapTupleData data = {};
    data.t_len = HeapTupleHeaderGetDatumLength(tuple);
    data.t_data = tuple;
    tuplestore_puttuple(result->setResult, &data);
}

void
add_sink(ReturnSetInfo *result, const SinkKind &kind)
{
    ResultRow row;
    row.add_text(kind.name);
    row.add_text(kind.library);
    row.add_text(sink_package(kind));
    row.add(BoolGetDatum(has_sink_library(kind)));
    put_row(result, row);
}

void
add_state(ReturnSetInfo *result, SubscriptionSlot &subscription)
{
    const RelayReport report = report_of(&subscription.relay);
    const int32 pid = static_cast<int32>(pg_atomic_read_u32(&subscription.relay.pid));
    ResultRow row;
    row.add_text(subscription.name);
    row.add_text(relay_state_name(report.state));
    row.add(Int32GetDatum(pid), pid == 0 || BackendPidGetProc(pid) == nullptr);
    row.add_time(report.oldest_event_at);
    row.add(Int32GetDatum(report.in_flight_events));
    row.add(Int64GetDatum(report.in_flight_bytes));
    row.add_time(report.last_published_at);
    row.add(Int32GetDatum(report.consecutive_failures));
    row.add_time(report.next_attempt_at);
    row.add_text_or_null(report.last_error);
    row.add_time(report.last_error_at);
    row.add_text_or_null(report.config_error);
    put_row(result, row);
}

template <typename F>
bool
wait_for_end(RelayEntry &relay, F has_ended)
{
    static uint32 wait_event = 0;
    if (wait_event == 0)
        wait_event = named_wait_event("OutboxEndSubscription");
    for (long waited = 0; waited < kEndMs; waited += kLookMs)
    {
        if (has_ended())
            return true;
        end_relay(&relay);
        (void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, kLookMs,
                         wait_event);
        ResetLatch(MyLatch);
        CHECK_FOR_INTERRUPTS();
    }
    return false;
}

// Asks the relay to end, and waits until it has. The launcher starts no other one: it gives the
// place back.
bool
end_subscription(SubscriptionSlot &subscription)
{
    pg_atomic_write_u32(&subscription.wanted, 0);
    wake_launcher();
    return wait_for_end(subscription.relay,
                        [&] { return pg_atomic_read_u32(&subscription.relay.pid) == 0; });
}

// That of `default`, of which the launcher starts another one: that waits for a lock that the
// caller has, before it reads anything.
bool
end_default(RelayEntry &relay)
{
    const uint32 pid = pg_atomic_read_u32(&relay.pid);
    return wait_for_end(relay, [&] { return pg_atomic_read_u32(&relay.pid) != pid || pid == 0; });
}

bool
matches_any(Datum list, std::string_view type)
{
    Datum *patterns;
    bool *nulls;
    int count;
    deconstruct_array(DatumGetArrayTypeP(list), TEXTOID, -1, false, TYPALIGN_INT, &patterns, &nulls,
                      &count);
    for (int i = 0; i < count; i++)
        if (!nulls[i] && matches_type(text_view(DatumGetTextPP(patterns[i])), type))
            return true;
    return false;
}

// Also of who was granted the functions that others call.
void
require_superuser()
{
    if (!superuser())
        ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
                        errmsg("only superusers may change subscriptions"),
                        errdetail("They say where events are sent, and with which secrets."),
                        errhint("A superuser calls outbox.alter_subscription() and the "
                                "functions beside it.")));
}

// The trigger function serves two tables. Whatever else it was attached to is told of the first.
const char *
table_of_subscriptions(FunctionCallInfo fcinfo)
{
    constexpr const char *kHistory = "subscription_history";
    if (CALLED_AS_TRIGGER(fcinfo))
    {
        const TriggerData *data = reinterpret_cast<TriggerData *>(fcinfo->context);
        if (std::strcmp(RelationGetRelationName(data->tg_relation), kHistory) == 0)
            return kHistory;
    }
    return "subscriptions";
}

} // namespace

} // namespace outbox

extern "C"
{
    OUTBOX_FUNCTION(outbox_sinks);
    OUTBOX_FUNCTION(outbox_check_sink);
    OUTBOX_FUNCTION(outbox_matches_types);
    OUTBOX_FUNCTION(outbox_hold_subscriptions);
    OUTBOX_FUNCTION(outbox_before_subscription_change);
    OUTBOX_FUNCTION(outbox_check_subscription_options);
    OUTBOX_FUNCTION(outbox_subscription_states);
    OUTBOX_FUNCTION(outbox_end_subscription);

    Datum outbox_sinks(PG_FUNCTION_ARGS)
    {
        using namespace outbox;
        begin_returned_rows(fcinfo, false);
        ReturnSetInfo *result = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);
        for (const RegisteredSink *sink = first_sink(); sink != nullptr; sink = sink->next())
            add_sink(result, sink->kind());
        return static_cast<Datum>(0);
    }

    Datum outbox_check_sink(PG_FUNCTION_ARGS)
    {
        (void) outbox::usable_sink(text_to_cstring(PG_GETARG_TEXT_PP(0)));
        PG_RETURN_VOID();
    }

    Datum outbox_matches_types(PG_FUNCTION_ARGS)
    {
        if (PG_ARGISNULL(1))
            PG_RETURN_BOOL(true);
        PG_RETURN_BOOL(
            !PG_ARGISNULL(0) &&
            outbox::matches_any(PG_GETARG_DATUM(1), outbox::text_view(PG_GETARG_TEXT_PP(0))));
    }

    Datum outbox_hold_subscriptions(PG_FUNCTION_ARGS)
    {
        const bool exclusively = PG_GETARG_BOOL(0);
        if (exclusively)
            outbox::require_superuser();
        LOCKTAG tag;
        SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, 0, 0, outbox::kLocksOfSubscriptions);
        (void) LockAcquire(&tag, exclusively ? ExclusiveLock : ShareLock, false, false);
        PG_RETURN_VOID();
    }

    Datum outbox_before_subscription_change(PG_FUNCTION_ARGS)
    {
        (void) outbox::own_trigger(fcinfo, "before_subscription_change",
                                   outbox::table_of_subscriptions(fcinfo), outbox::Firing::any);
        outbox::require_superuser();
        PG_RETURN_POINTER(nullptr);
    }

    Datum outbox_check_subscription_options(PG_FUNCTION_ARGS)
    {
        using namespace outbox;
        const SinkKind &kind = usable_sink(text_to_cstring(PG_GETARG_TEXT_PP(0)));
        check_subscription_options(kind, PG_GETARG_JSONB_P(1));
        PG_RETURN_VOID();
    }

    Datum outbox_subscription_states(PG_FUNCTION_ARGS)
    {
        using namespace outbox;
        begin_returned_rows(fcinfo, false);
        ReturnSetInfo *result = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);
        DatabaseSlot *slot = find_slot(MyDatabaseId);
        if (slot != nullptr)
            for_each_subscription(*slot, [&](SubscriptionSlot &subscription)
                                  { add_state(result, subscription); });
        return static_cast<Datum>(0);
    }

    Datum outbox_end_subscription(PG_FUNCTION_ARGS)
    {
        using namespace outbox;
        require_superuser();
        DatabaseSlot *slot = find_slot(MyDatabaseId);
        if (slot == nullptr)
            PG_RETURN_BOOL(true);
        const char *name = text_to_cstring(PG_GETARG_TEXT_PP(0));
        if (std::strcmp(name, "default") == 0)
            PG_RETURN_BOOL(end_default(slot->relay));
        SubscriptionSlot *subscription = find_subscription(*slot, name);
        PG_RETURN_BOOL(subscription == nullptr || end_subscription(*subscription));
    }
}
