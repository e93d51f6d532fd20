// The trigger of outbox.routes, and outbox.route_of().

#include "routes.h"

#include "transaction.h"

#include "extension/server/result_row.h"
#include "extension/server/server_text.h"
#include "extension/shared/settings.h"
#include "extension/trust/own_trigger.h"

namespace outbox
{

namespace
{

constexpr int kRouteColumns = 5;
constexpr int kTypeColumns = 2; // the first ones

[[noreturn]] void
refuse_route(const RouteText &text, const Verdict &verdict)
{
    const std::string_view aggregate = clip_server(text.aggregate_type, 300);
    const std::string_view event = clip_server(text.event_type, 300);
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
             errmsg("route for aggregate_type \"%.*s\" and event_type \"%.*s\" is not usable",
                    static_cast<int>(aggregate.size()), aggregate.data(),
                    static_cast<int>(event.size()), event.data()),
             errdetail("Its %s.", verdict.reason),
             verdict.hint[0] != '\0' ? errhint("%s", verdict.hint) : 0));
    pg_unreachable();
}

// A type that is left out, or null, is any.
HeapTuple
complete_types(HeapTuple row, TupleDesc desc)
{
    for (int number = 1; number <= kTypeColumns; number++)
    {
        bool is_null;
        (void) heap_getattr(row, number, desc, &is_null);
        if (!is_null)
            continue;
        int columns[] = {number};
        Datum values[] = {PointerGetDatum(cstring_to_text_with_len(kAnyType.data(), 1))};
        bool nulls[] = {false};
        row = heap_modify_tuple_by_cols(row, desc, 1, columns, values, nulls);
    }
    return row;
}

HeapTuple
check_row(HeapTuple row, TupleDesc desc)
{
    row = complete_types(row, desc);
    std::optional<std::string_view> texts[kRouteColumns];
    for (int i = 0; i < kRouteColumns; i++)
    {
        bool is_null;
        const Datum value = heap_getattr(row, i + 1, desc, &is_null);
        if (!is_null)
            texts[i] = text_view(DatumGetTextPP(value));
    }
    const RouteText text = {*texts[0], *texts[1], texts[2], texts[3], texts[4]};
    Route route;
    const Verdict verdict = read_route(text, &route);
    if (!verdict.ok)
        refuse_route(text, verdict);
    return row;
}

// The whole table, as the relay will read it.
void
check_table()
{
    CommandCounterIncrement();
    Verdict verdict;
    if (load_routes(true, &verdict) == RoutesLoaded::broken)
        ereport(ERROR,
                (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
                 errmsg("outbox.routes would not be usable"), errdetail("The %s.", verdict.reason),
                 verdict.hint[0] != '\0' ? errhint("%s", verdict.hint) : 0));
}

// The route of these types, and what follows from it and the session's settings.
ResultRow
describe(std::string_view aggregate_type, std::string_view event_type)
{
    const RouteTable::Entry *entry = routes()->find(aggregate_type, event_type);
    static const Route none;
    const Route &route = entry != nullptr ? entry->route : none;
    char topic[kMaxTopicLength];
    const TopicName name = (route.has_topic ? route.topic : topic_template())
                               .expand(aggregate_type, event_type, topic, sizeof(topic));
    if (name.error != nullptr)
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                 errmsg("these types do not make a Kafka topic name"),
                 errdetail("The topic name %s.", name.error), errhint("%s", kTopicNameRule)));
    const char *on_failure =
        on_failure_name(route.blocks.value_or(settings.on_failure == OnFailure::kBlock));
    const char *headers = headers_format_name(
        route.headers.value_or(static_cast<HeadersFormat>(settings.headers_format)));
    ResultRow row;
    if (entry != nullptr)
    {
        row.add_text(entry->aggregate_type);
        row.add_text(entry->event_type);
    }
    else
    {
        row.add_null();
        row.add_null();
    }
    row.add_text({topic, name.length});
    row.add_text(on_failure);
    row.add_text(headers);
    return row;
}

} // namespace

} // namespace outbox

extern "C"
{
    OUTBOX_FUNCTION(outbox_on_route_change);
    OUTBOX_FUNCTION(outbox_route_of);

    Datum outbox_on_route_change(PG_FUNCTION_ARGS)
    {
        TriggerData *data =
            outbox::own_trigger(fcinfo, "on_route_change", "routes", outbox::Firing::any);
        TupleDesc desc = RelationGetDescr(data->tg_relation);
        outbox::check_route_columns(desc);
        CacheInvalidateRelcache(data->tg_relation);
        outbox::notify_relay_at_commit();
        if (TRIGGER_FIRED_FOR_STATEMENT(data->tg_event))
        {
            if (!TRIGGER_FIRED_BY_TRUNCATE(data->tg_event))
                outbox::check_table();
            PG_RETURN_POINTER(nullptr);
        }
        if (TRIGGER_FIRED_BY_INSERT(data->tg_event))
            PG_RETURN_POINTER(outbox::check_row(data->tg_trigtuple, desc));
        if (TRIGGER_FIRED_BY_UPDATE(data->tg_event))
            PG_RETURN_POINTER(outbox::check_row(data->tg_newtuple, desc));
        PG_RETURN_POINTER(data->tg_trigtuple);
    }

    Datum outbox_route_of(PG_FUNCTION_ARGS)
    {
        using namespace outbox;
        TupleDesc desc = result_type(fcinfo, kRouteColumns);
        Verdict verdict;
        if (load_routes(true, &verdict) == RoutesLoaded::broken)
            ereport(ERROR,
                    (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                     errmsg("outbox.routes is not usable"), errdetail("The %s.", verdict.reason),
                     verdict.hint[0] != '\0' ? errhint("%s", verdict.hint) : 0));
        ResultRow row = describe(text_view(PG_GETARG_TEXT_PP(0)), text_view(PG_GETARG_TEXT_PP(1)));
        PG_RETURN_DATUM(row.as_datum(desc));
    }
}
