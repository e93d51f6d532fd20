// An event as Kafka gets it: key, value and headers as Debezium's outbox event router with its
// string converter writes them.
#pragma once

#include "extension/core/cloudevents.h"

#include "bgworker/engine/record.h"
#include "bgworker/source/events/event_reader.h"

namespace outbox
{

// What is in an event's row, in the server's encoding.
struct EventTexts
{
    std::string_view aggregate_type;
    std::string_view aggregate_id;
    std::string_view event_type;
    std::string_view key;
    Jsonb *payload;
    struct varlena *payload_bytes;
    Jsonb *headers;
    HeadersFormat format;
};

enum class BuildResult
{
    built,
    too_large,
    too_deep,
    refused
};

struct RecordProblem
{
    int sqlerrcode;
    char text[384];
};

// Builds the record of an event, except its topic, in the current memory context. Stops as soon as
// it is larger than `limit`; refuses a payload that is nested deeper than `depth`. May raise an
// error: what is in an event may have no form in UTF-8.
BuildResult build_record(const EventRow &event, const EventTexts &texts, TimestampTz now,
                         size_t limit, int depth, Record *record, RecordProblem *problem);

// The same text in UTF-8, Kafka's encoding. May raise an error.
std::string_view to_utf8(std::string_view value);

} // namespace outbox
