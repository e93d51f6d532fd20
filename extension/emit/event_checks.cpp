#include "routes.h"

#include "backlog.h"
#include "event_checks.h"

#include "extension/server/jsonb_walk.h"
#include "extension/server/server_text.h"
#include "extension/shared/settings.h"

namespace outbox
{

namespace
{

// Headers that the relay sets itself.
constexpr std::string_view kReservedHeaders[] = {"id",         "event_type",     "aggregate_type",
                                                 "created_at", "schema_version", "replay_id"};

void
check_name(const char *what, const text *value)
{
    if (value == nullptr)
        ereport(ERROR,
                (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("%s must not be null", what),
                 errhint("Every event names its aggregate_type, aggregate_id and "
                         "event_type.")));
    if (VARSIZE_ANY_EXHDR(value) == 0)
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s must not be empty", what),
                 errhint("Every event names its aggregate_type, aggregate_id and event_type.")));
}

// The routes as far as they are known: false when the table is locked or not usable.
// Then the relay judges, and no session waits here.
bool
routes_known()
{
    if (routes_changed())
        (void) load_routes();
    return routes() != nullptr;
}

[[noreturn]] void
refuse_topic(const EventInput &event, const RouteTable::Entry *entry, const char *problem)
{
    const std::string_view type = clip_server(text_view(event.aggregate_type), 300);
    std::string_view aggregate;
    std::string_view by_event;
    if (entry != nullptr)
    {
        aggregate = entry->aggregate_type;
        by_event = entry->event_type;
    }
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("aggregate_type \"%.*s\" does not make a Kafka topic name",
                           static_cast<int>(type.size()), type.data()),
                    entry != nullptr
                        ? errdetail("With the row (%.*s, %.*s) of outbox.routes the topic name %s.",
                                    static_cast<int>(aggregate.size()), aggregate.data(),
                                    static_cast<int>(by_event.size()), by_event.data(), problem)
                        : errdetail("With outbox.topic_template = \"%s\" the topic name %s.",
                                    settings.topic_template, problem),
                    errhint("%s", kTopicNameRule)));
    pg_unreachable();
}

// Returns the row of outbox.routes for the event, or null.
const RouteTable::Entry *
check_topic(const EventInput &event)
{
    if (!routes_known())
        return nullptr;
    const std::string_view aggregate_type = text_view(event.aggregate_type);
    const std::string_view event_type = text_view(event.event_type);
    const RouteTable::Entry *entry =
        routes()->empty() ? nullptr : routes()->find(aggregate_type, event_type);
    const bool has_topic = entry != nullptr && entry->route.has_topic;
    char buffer[kMaxTopicLength];
    const TopicName topic = (has_topic ? entry->route.topic : topic_template())
                                .expand(aggregate_type, event_type, buffer, sizeof(buffer));
    if (topic.error != nullptr)
        refuse_topic(event, has_topic ? entry : nullptr, topic.error);
    return entry;
}

HeadersFormat
headers_of(const RouteTable::Entry *entry)
{
    const HeadersFormat by_default = static_cast<HeadersFormat>(settings.headers_format);
    return entry != nullptr ? entry->route.headers.value_or(by_default) : by_default;
}

void
refuse_header(const JsonbValue *name, const char *problem, const char *hint)
{
    const std::string_view shown =
        clip_server({name->val.string.val, static_cast<size_t>(name->val.string.len)}, 300);
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
             errmsg("header \"%.*s\" %s", static_cast<int>(shown.size()), shown.data(), problem),
             errhint("%s", hint)));
}

void
check_header_name(const JsonbValue *name)
{
    const std::string_view text(name->val.string.val, name->val.string.len);
    if (text.empty())
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("header name must not be empty"),
                 errhint("Give each header a name, such as traceparent.")));
    for (const std::string_view reserved : kReservedHeaders)
        if (text == reserved)
            refuse_header(name, "is reserved",
                          "The relay sets id, event_type, aggregate_type, created_at, "
                          "schema_version and replay_id itself.");
}

// A flat object of strings and numbers.
void
check_headers(Jsonb *headers)
{
    static const char *const kHint =
        "Headers are a flat JSON object such as {\"traceparent\": \"00-...\", \"tenant\": 7}.";
    if (!JB_ROOT_IS_OBJECT(headers))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("headers must be a JSON object"), errhint("%s", kHint)));
    const int64 count = JB_ROOT_COUNT(headers);
    if (count > kMaxHeaders)
        ereport(ERROR,
                (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
                 errmsg("event has " INT64_FORMAT " headers, and " INT64_FORMAT " are allowed",
                        count, kMaxHeaders),
                 errhint("Put the data into the payload.")));

    for_each_member(headers,
                    [](const JsonbValue &name, const JsonbValue &value)
                    {
                        check_header_name(&name);
                        if (value.type != jbvString && value.type != jbvNumeric)
                            refuse_header(&name, "is neither a string nor a number", kHint);
                    });
}

// As the attribute of CloudEvents that the relay makes of it.
void
check_attribute(const char *what, const char *attribute, const text *value)
{
    const std::string_view raw = text_view(value);
    // An encoding without a way to UTF-8 is refused with the sizes, unless the text is in ASCII.
    const char *utf8 = has_way_to_utf8()
                           ? pg_server_to_any(raw.data(), static_cast<int>(raw.size()), PG_UTF8)
                           : raw.data();
    const std::string_view attribute_text =
        utf8 == raw.data() ? raw : std::string_view(utf8, strlen(utf8));
    if (!is_attribute_text(attribute_text))
        ereport(
            ERROR,
            (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
             errmsg("%s has a character that CloudEvents does not allow", what),
             errdetail("It becomes the attribute %s, in which there may be no control character "
                       "and none of the code points that are no characters.",
                       attribute),
             errhint("Leave the character out, or send other headers: see outbox.routes and "
                     "outbox.headers_format.")));
}

void
check_size(const EventInput &event, HeadersFormat format)
{
    const int64 limit = settings.max_event_bytes;
    if (surely_fits(event, limit))
        return;
    const SentSize size = sent_size(event, format);
    if (size.total() <= limit)
        return;
    ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
                    errmsg("event of " INT64_FORMAT
                           " bytes is larger than the limit of " INT64_FORMAT " bytes",
                           size.total(), limit),
                    errdetail("The payload takes " INT64_FORMAT " bytes, the headers " INT64_FORMAT
                              ", the key and the types " INT64_FORMAT ".",
                              size.payload, size.headers, size.names),
                    errhint("Store large data elsewhere and emit a reference to it, or raise "
                            "outbox.max_event_size together with the limits of Kafka's topics.")));
}

} // namespace

void
check_event(const EventInput &event)
{
    check_backlog();
    check_name("aggregate_type", event.aggregate_type);
    check_name("aggregate_id", event.aggregate_id);
    check_name("event_type", event.event_type);
    if (event.partition_key != nullptr && VARSIZE_ANY_EXHDR(event.partition_key) == 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("partition_key must not be empty"),
                        errhint("Leave it null to use aggregate_id as the Kafka key.")));
    if (event.payload != nullptr && event.payload_bytes != nullptr)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("an event has either payload or payload_bytes, not both")));
    const HeadersFormat format = headers_of(check_topic(event));
    if (event.headers != nullptr)
        check_headers(event.headers);
    check_size(event, format);
    if (has_cloudevents(format))
    {
        check_attribute("aggregate_type", "ce_aggregatetype", event.aggregate_type);
        check_attribute("aggregate_id", "ce_subject", event.aggregate_id);
        check_attribute("event_type", "ce_type", event.event_type);
    }
}

} // namespace outbox
