#include "record_headers.h"

#include "routing.h"

namespace outbox
{

namespace
{

constexpr size_t kOwnHeaders = 5;
constexpr size_t kCloudEventsHeaders = 9;

// The headers under way.
struct Headers
{
    Header *all;
    size_t count;
    size_t left; // bytes that more of them may take
    BuildResult result;

    void add(std::string_view name, std::string_view value)
    {
        if (result == BuildResult::built && name.size() + value.size() > left)
            result = BuildResult::too_large;
        if (result != BuildResult::built)
            return;
        left -= name.size() + value.size();
        all[count++] = {name, value, false};
    }

    // Keeps a place, to be filled or given up by set(); not if there is something wrong.
    size_t reserve() { return count++; }

    void set(size_t place, std::string_view name, std::string_view value)
    {
        const size_t end = count;
        count = place;
        if (!value.empty())
            add(name, value);
        for (size_t i = place + 1; i < end; i++)
            all[count++] = all[i];
    }
};

constexpr size_t kNowhere = PG_UINT64_MAX;

// What the caller says that the payload is, and where among its headers.
struct Content
{
    ContentType type;
    size_t place;
};

char *
write_digits(char *to, int value, int digits)
{
    for (int i = digits - 1; i >= 0; i--)
    {
        to[i] = static_cast<char>('0' + value % 10);
        value /= 10;
    }
    return to + digits;
}

// ISO 8601 in UTC with microseconds: 2026-01-31T09:05:00.000123Z. Empty for what that cannot say:
// years before 0 and after 9999, and infinity.
std::string_view
iso_time(TimestampTz time)
{
    struct pg_tm tm;
    fsec_t microseconds;
    if (TIMESTAMP_NOT_FINITE(time) ||
        timestamp2tm(time, nullptr, &tm, &microseconds, nullptr, nullptr) != 0 || tm.tm_year < 0 ||
        tm.tm_year > 9999)
        return {};
    char *text = static_cast<char *>(palloc(32));
    char *at = write_digits(text, tm.tm_year, 4);
    *at++ = '-';
    at = write_digits(at, tm.tm_mon, 2);
    *at++ = '-';
    at = write_digits(at, tm.tm_mday, 2);
    *at++ = 'T';
    at = write_digits(at, tm.tm_hour, 2);
    *at++ = ':';
    at = write_digits(at, tm.tm_min, 2);
    *at++ = ':';
    at = write_digits(at, tm.tm_sec, 2);
    *at++ = '.';
    at = write_digits(at, microseconds, 6);
    *at++ = 'Z';
    return {text, static_cast<size_t>(at - text)};
}

// PostgreSQL has a text for every time.
std::string_view
any_time(TimestampTz time)
{
    const std::string_view iso = iso_time(time);
    return !iso.empty() ? iso : to_utf8(pstrdup(timestamptz_to_str(time)));
}

std::string_view
uuid_text(const pg_uuid_t &id)
{
    static const char kHex[] = "0123456789abcdef";
    char *text = static_cast<char *>(palloc(UUID_LEN * 2 + 4));
    char *at = text;
    for (int i = 0; i < UUID_LEN; i++)
    {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *at++ = '-';
        *at++ = kHex[id.data[i] >> 4];
        *at++ = kHex[id.data[i] & 15];
    }
    return {text, static_cast<size_t>(at - text)};
}

std::string_view
int_text(int32 value)
{
    char *text = static_cast<char *>(palloc(12));
    return {text, write_int(value, text)};
}

void
refuse(Headers *headers, RecordProblem *problem, const char *format, std::string_view name)
{
    if (headers->result != BuildResult::built)
        return;
    constexpr size_t kMost = 200;
    const int length = pg_mbcliplen(name.data(), static_cast<int>(name.size()), kMost);
    problem->sqlerrcode = ERRCODE_INVALID_PARAMETER_VALUE;
    snprintf(problem->text, sizeof(problem->text), format, length, name.data());
    headers->result = BuildResult::refused;
}

void
add_debezium_headers(const EventRow &event, const EventTexts &texts, Headers *headers)
{
    headers->add("id", uuid_text(event.id));
    headers->add("event_type", to_utf8(texts.event_type));
    headers->add("aggregate_type", to_utf8(texts.aggregate_type));
    headers->add("created_at", any_time(event.created_at));
    if (event.has_schema_version)
        headers->add("schema_version", int_text(event.schema_version));
}

void
add_attribute(const char *name, std::string_view value, Headers *headers, RecordProblem *problem)
{
    const std::string_view text = to_utf8(value);
    if (is_attribute_text(text))
        headers->add(name, text);
    else
        refuse(headers, problem,
               "a control character, which CloudEvents allows in no attribute, would be in %.*s",
               name);
}

// CloudEvents 1.0 in Kafka's binary content mode. Values are UTF-8 as they are: the
// percent-encoding of the HTTP binding is not Kafka's.
void
add_cloudevents_headers(const EventRow &event, const EventTexts &texts, Headers *headers,
                        RecordProblem *problem)
{
    headers->add("ce_specversion", "1.0");
    headers->add("ce_id", uuid_text(event.id));
    headers->add("ce_source", event_source());
    add_attribute("ce_type", texts.event_type, headers, problem);
    // An attribute that need not be there.
    const std::string_view time = iso_time(event.created_at);
    if (!time.empty())
        headers->add("ce_time", time);
    add_attribute("ce_subject", texts.aggregate_id, headers, problem);
    add_attribute("ce_aggregatetype", texts.aggregate_type, headers, problem);
    if (event.has_schema_version)
        headers->add("ce_schemaversion", int_text(event.schema_version));
}

// What emit() lets in; the rest came by another way.
bool
header_value(const JsonbValue &value, std::string_view *text)
{
    if (value.type == jbvString)
        *text = to_utf8({value.val.string.val, static_cast<size_t>(value.val.string.len)});
    else if (value.type == jbvNumeric)
    {
        const char *digits =
            DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(value.val.numeric)));
        *text = {digits, strlen(digits)};
    }
    else
        return false;
    return true;
}

// The caller's headers, in the order that jsonb keeps them. Those that a format with CloudEvents
// attributes takes for itself are left out there. What the caller says that the payload is, is set
// by add_content_type().
void
add_caller_headers(Jsonb *object, HeadersFormat format, Headers *headers, Content *content,
                   RecordProblem *problem)
{
    JsonbIterator *iterator = JsonbIteratorInit(&object->root);
    JsonbValue item;
    JsonbIteratorToken token;
    std::string_view name;
    while (headers->result == BuildResult::built &&
           (token = JsonbIteratorNext(&iterator, &item, true)) != WJB_DONE)
    {
        if (token == WJB_KEY)
            name = {item.val.string.val, static_cast<size_t>(item.val.string.len)};
        if (token != WJB_VALUE)
            continue;
        std::string_view value;
        if (!header_value(item, &value))
            return refuse(headers, problem, "header \"%.*s\" is neither a string nor a number",
                          name);
        if (has_cloudevents(format) && content->type.take(name, value))
        {
            if (content->place == kNowhere)
                content->place = headers->reserve();
        }
        else if (!has_cloudevents(format) || !is_cloudevents_header(name))
            headers->add(to_utf8(name), value);
    }
}

// What the payload is, unless the caller says so; a tombstone is nothing.
void
add_content_type(const EventTexts &texts, const Content &content, Headers *headers)
{
    std::string_view type = content.type.value;
    if (type.empty() && texts.payload_bytes != nullptr)
        type = "application/octet-stream";
    else if (type.empty() && texts.payload != nullptr)
        type = "application/json";
    if (content.place != kNowhere)
        headers->set(content.place, kContentType, type);
    else if (!type.empty())
        headers->add(kContentType, type);
}

} // namespace

BuildResult
set_headers(const EventRow &event, const EventTexts &texts, size_t limit, Record *record,
            RecordProblem *problem)
{
    // Each has a name, and two lengths.
    constexpr size_t kSmallestHeader = 3;
    Headers headers = {nullptr, 0, limit, BuildResult::built};
    size_t callers = 0;
    if (texts.headers != nullptr && !JB_ROOT_IS_OBJECT(texts.headers))
        refuse(&headers, problem, "%.*s is not a JSON object", "headers");
    else if (texts.headers != nullptr)
        callers = JB_ROOT_COUNT(texts.headers);
    if (callers > limit / kSmallestHeader)
        headers.result = BuildResult::too_large;
    if (headers.result != BuildResult::built)
        return headers.result;
    const size_t own = kOwnHeaders + (has_cloudevents(texts.format) ? kCloudEventsHeaders : 0);
    headers.all = static_cast<Header *>(
        MemoryContextAllocHuge(CurrentMemoryContext, (own + callers) * sizeof(Header)));
    if (texts.format != kCloudEvents)
        add_debezium_headers(event, texts, &headers);
    if (has_cloudevents(texts.format))
        add_cloudevents_headers(event, texts, &headers, problem);
    Content content = {{}, kNowhere};
    if (callers > 0)
        add_caller_headers(texts.headers, texts.format, &headers, &content, problem);
    if (has_cloudevents(texts.format))
        add_content_type(texts, content, &headers);
    record->headers = headers.all;
    record->header_count = headers.count;
    return headers.result;
}

} // namespace outbox
