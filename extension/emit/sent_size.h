// What an event takes in Kafka, and whether it can be put into Kafka's UTF-8 at all: known before
// any of it is built.
#pragma once

#include "extension/core/cloudevents.h"
#include "extension/server/pg.h"
#include "extension/shared/for_relay.h"

namespace outbox
{

// The caller's part of an event, as PostgreSQL values; a null pointer is SQL NULL. None of them is
// compressed or stored out of line.
struct EventInput
{
    text *aggregate_type;
    text *aggregate_id;
    text *event_type;
    text *partition_key;
    Jsonb *payload;
    bytea *payload_bytes;
    Jsonb *headers;
};

// In bytes, except for header_count.
struct SentSize
{
    int64 payload;
    int64 names;   // key, types, and what else repeats them in the format of headers
    int64 headers; // of the caller, with Kafka's lengths of names and values
    int64 header_count;

    int64 total() const { return payload + names + headers; }
};

// More of the caller's headers in one event are refused.
constexpr int64 kMaxHeaders = 10000;

// Deeper JSON is refused: a reader of it may have a smaller stack than we.
constexpr int kMaxJsonDepth = 2000;

// Takes time in proportion to what is stored, and a bounded amount of memory, whatever the numbers
// in it are. Headers that are no object count as nothing. Raises character_not_in_repertoire or
// untranslatable_character for a text that has no equivalent in UTF-8, and
// program_limit_exceeded for JSON that is nested too deep.
OUTBOX_FOR_RELAY SentSize sent_size(const EventInput &event, HeadersFormat format);

// Whether it is clear without a look at the texts that sent_size() is within the limit in every
// format, and raises nothing. True for most events.
bool surely_fits(const EventInput &event, int64 limit);

} // namespace outbox
