#include "extension/core/routes.h"

#include "wire.h"

#include "routing.h"

#include "jsonb_text.h"

namespace outbox
{

namespace
{

constexpr int kOwnHeaders = 5;
constexpr int kCloudEventsHeaders = 9;
constexpr size_t kRecordOverhead = 320;

// Topic retention deletes by record timestamp: an event that comes late must not be born expired.
constexpr int64 kLateUs = static_cast<int64>(3600) * 1000000;

constexpr int64 kUnixEpochOffsetUs =
    (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * static_cast<int64>(86400) * 1000000;

// Kafka's texts are UTF-8, whatever the database's encoding is.
std::string_view
utf8(std::string_view value)
{
    if (GetDatabaseEncoding() == PG_UTF8)
        return value;
    char *converted = pg_server_to_any(value.data(), static_cast<int>(value.size()), PG_UTF8);
    if (converted == value.data())
        return value;
    return {converted, strlen(converted)};
}

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

// ISO 8601 in UTC with microseconds: 2026-01-31T09:05:00.000123Z
std::string_view
iso_time(TimestampTz time)
{
    struct pg_tm tm;
    fsec_t microseconds;
    if (TIMESTAMP_NOT_FINITE(time) ||
        timestamp2tm(time, nullptr, &tm, &microseconds, nullptr, nullptr) != 0 || tm.tm_year < 0 ||
        tm.tm_year > 9999)
        return utf8(timestamptz_to_str(time));
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

std::string_view
uuid_text(const pg_uuid_t *id)
{
    static const char kHex[] = "0123456789abcdef";
    char *text = static_cast<char *>(palloc(UUID_LEN * 2 + 4));
    char *at = text;
    for (int i = 0; i < UUID_LEN; i++)
    {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *at++ = '-';
        *at++ = kHex[id->data[i] >> 4];
        *at++ = kHex[id->data[i] & 15];
    }
    return {text, static_cast<size_t>(at - text)};
}

std::string_view
int_text(int32 value)
{
    char *text = static_cast<char *>(palloc(12));
    return {text, write_int(value, text)};
}

std::string_view
header_value(const JsonbValue &value)
{
    if (value.type == jbvString)
        return utf8({value.val.string.val, static_cast<size_t>(value.val.string.len)});
    if (value.type == jbvNumeric)
    {
        const char *text =
            DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(value.val.numeric)));
        return {text, strlen(text)};
    }
    return {}; // not let in by emit()
}

// The caller's headers, in the order that jsonb keeps them. Those of CloudEvents attributes that
// the relay sets itself are left out in a format that has them.
size_t
add_caller_headers(Jsonb *object, HeadersFormat format, kafka::Header *headers)
{
    size_t count = 0;
    JsonbIterator *iterator = JsonbIteratorInit(&object->root);
    JsonbValue item;
    JsonbIteratorToken token;
    bool left_out = false;
    while ((token = JsonbIteratorNext(&iterator, &item, true)) != WJB_DONE)
    {
        if (token == WJB_KEY)
        {
            const std::string_view name = {item.val.string.val,
                                           static_cast<size_t>(item.val.string.len)};
            left_out = has_cloudevents(format) && is_cloudevents_header(name);
            headers[count].name = utf8(name);
        }
        else if (token == WJB_VALUE && !left_out)
        {
            headers[count].value = header_value(item);
            headers[count].is_null = false;
            count++;
        }
    }
    return count;
}

size_t
add_debezium_headers(const EventRow &event, kafka::Header *headers)
{
    size_t count = 0;
    headers[count++] = {"id", uuid_text(event.id), false};
    headers[count++] = {"event_type", utf8(text_view(event.event_type)), false};
    headers[count++] = {"aggregate_type", utf8(text_view(event.aggregate_type)), false};
    headers[count++] = {"created_at", iso_time(event.created_at), false};
    if (event.has_schema_version)
        headers[count++] = {"schema_version", int_text(event.schema_version), false};
    return count;
}

// CloudEvents 1.0 in Kafka's binary content mode. Values are UTF-8 as they are: the
// percent-encoding of the HTTP binding is not Kafka's.
size_t
add_cloudevents_headers(const EventRow &event, kafka::Header *headers)
{
    size_t count = 0;
    headers[count++] = {"ce_specversion", "1.0", false};
    headers[count++] = {"ce_id", uuid_text(event.id), false};
    headers[count++] = {"ce_source", event_source(), false};
    headers[count++] = {"ce_type", utf8(text_view(event.event_type)), false};
    headers[count++] = {"ce_time", iso_time(event.created_at), false};
    headers[count++] = {"ce_subject", utf8(text_view(event.aggregate_id)), false};
    headers[count++] = {"ce_aggregatetype", utf8(text_view(event.aggregate_type)), false};
    if (event.has_schema_version)
        headers[count++] = {"ce_schemaversion", int_text(event.schema_version), false};
    return count;
}

// What the payload is, unless the caller says so; a tombstone is nothing.
size_t
add_content_type(const EventRow &event, kafka::Header *headers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (headers[i].name == kContentType)
            return count;
    if (event.payload != nullptr)
        headers[count++] = {kContentType, "application/json", false};
    else if (event.payload_bytes != nullptr)
        headers[count++] = {kContentType, "application/octet-stream", false};
    return count;
}

void
set_headers(const EventRow &event, HeadersFormat format, kafka::Record *record)
{
    const size_t callers = event.headers != nullptr && JB_ROOT_IS_OBJECT(event.headers)
                               ? JB_ROOT_COUNT(event.headers)
                               : 0;
    const size_t own = kOwnHeaders + (has_cloudevents(format) ? kCloudEventsHeaders : 0);
    kafka::Header *headers =
        static_cast<kafka::Header *>(palloc0((own + callers) * sizeof(kafka::Header)));
    size_t count = 0;
    if (format != kCloudEvents)
        count += add_debezium_headers(event, headers);
    if (has_cloudevents(format))
        count += add_cloudevents_headers(event, headers + count);
    if (callers > 0)
        count += add_caller_headers(event.headers, format, headers + count);
    if (has_cloudevents(format))
        count = add_content_type(event, headers, count);
    record->headers = headers;
    record->header_count = count;
}

void
set_value(const EventRow &event, kafka::Record *record)
{
    std::string_view value;
    record->tombstone = false;
    if (event.payload_bytes != nullptr)
        value = text_view(event.payload_bytes);
    else if (event.payload != nullptr)
        value = utf8(jsonb_text(event.payload));
    else
        record->tombstone = true;
    record->value = value.data();
    record->value_size = value.size();
}

int64
record_time_ms(TimestampTz created_at, TimestampTz now)
{
    const bool late = TIMESTAMP_NOT_FINITE(created_at) || created_at < now - kLateUs;
    const int64 unix_us = (late ? now : created_at) + kUnixEpochOffsetUs;
    return unix_us / 1000;
}

} // namespace

const char *
build_record(const EventRow &event, TimestampTz now, char *topic_buffer, kafka::Record *record)
{
    *record = {};
    const Route *route = route_of(event);
    const TopicName topic = topic_by(route, event, topic_buffer, kTopicBuffer);
    if (topic.error != nullptr)
        return topic.error;
    record->topic = {topic_buffer, topic.length};
    record->key = utf8(key_of(event));
    set_value(event, record);
    set_headers(event, headers_by(route), record);
    record->timestamp_ms = record_time_ms(event.created_at, now);
    return nullptr;
}

kafka::Failure
no_topic(const char *problem)
{
    kafka::Failure failure;
    kafka::describe_config(failure, "Correct outbox.topic_template or outbox.routes.",
                           "the topic name %s", problem);
    strlcpy(failure.name, "INVALID_TOPIC", sizeof(failure.name));
    failure.cls = kafka::FailureClass::event;
    return failure;
}

size_t
size_of(const kafka::Record &record)
{
    size_t bytes = record.key.size() + record.value_size;
    for (size_t i = 0; i < record.header_count; i++)
        bytes += record.headers[i].name.size() + record.headers[i].value.size();
    return bytes;
}

size_t
size_in_flight(const kafka::Record &record)
{
    constexpr size_t kHeaderOverhead = 32;
    return kRecordOverhead + size_of(record) + kHeaderOverhead * record.header_count;
}

} // namespace outbox
