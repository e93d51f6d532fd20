#include "wire.h"

#include "jsonb_text.h"
#include "record_headers.h"

#include "extension/server/text_view.h"

namespace outbox
{

namespace
{

// Topic retention deletes by record timestamp: an event that comes late must not be born expired.
constexpr int64 kLateUs = static_cast<int64>(3600) * 1000000;

constexpr int64 kUnixEpochOffsetUs =
    (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * static_cast<int64>(86400) * 1000000;

bool
is_ascii(std::string_view text)
{
    for (const char c : text)
        if ((static_cast<unsigned char>(c) & 0x80) != 0)
            return false;
    return true;
}

BuildResult
set_value(const EventTexts &texts, size_t limit, int depth, Record *record)
{
    std::string_view value;
    record->tombstone = false;
    if (texts.payload_bytes != nullptr)
        value = text_view(texts.payload_bytes);
    else if (texts.payload != nullptr)
    {
        const JsonbTextResult result = jsonb_text(texts.payload, limit, depth, &value);
        if (result != JsonbTextResult::whole)
            return result == JsonbTextResult::too_deep ? BuildResult::too_deep
                                                       : BuildResult::too_large;
        value = to_utf8(value);
    }
    else
        record->tombstone = true;
    record->value = value.data();
    record->value_size = value.size();
    return value.size() <= limit ? BuildResult::built : BuildResult::too_large;
}

// Kafka refuses what lies in the future, and what says so is in the header created_at.
int64
record_time_ms(TimestampTz created_at, TimestampTz now)
{
    const bool other =
        TIMESTAMP_NOT_FINITE(created_at) || created_at > now || created_at < now - kLateUs;
    const int64 unix_us = (other ? now : created_at) + kUnixEpochOffsetUs;
    return unix_us / 1000;
}

} // namespace

// All encodings of a server have ASCII in them.
std::string_view
to_utf8(std::string_view value)
{
    if (GetDatabaseEncoding() == PG_UTF8 || is_ascii(value))
        return value;
    char *converted = pg_server_to_any(value.data(), static_cast<int>(value.size()), PG_UTF8);
    if (converted == value.data())
        return value;
    return {converted, strlen(converted)};
}

BuildResult
build_record(const EventRow &event, const EventTexts &texts, TimestampTz now, size_t limit,
             int depth, Record *record, RecordProblem *problem)
{
    record->key = to_utf8(texts.key);
    if (record->key.size() > limit)
        return BuildResult::too_large;
    const BuildResult result = set_value(texts, limit - record->key.size(), depth, record);
    if (result != BuildResult::built)
        return result;
    record->timestamp_ms = record_time_ms(event.created_at, now);
    return set_headers(event, texts, limit - record->key.size() - record->value_size, record,
                       problem);
}

} // namespace outbox
