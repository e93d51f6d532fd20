// From a row to what Kafka gets. Whatever goes wrong on the way is the failure of that event.
#pragma once

#include "bgworker/engine/failure.h"
#include "bgworker/engine/record.h"

#include "routing.h"

namespace outbox
{

constexpr int kTopicBuffer = 256;

// Which line an event stands in, as far as that could be read.
struct EventLine
{
    std::string_view topic;     // "?": it has none, or its types cannot be read
    std::string_view key;       // in the server's encoding; empty: it cannot be read, or be sent
    std::optional<bool> blocks; // by its route, whether later events of the key wait for it
    char topic_buffer[kTopicBuffer];
};

// Reads which line an event stands in. False: `why` says what is wrong, and *line is right as far
// as it could be read. In a transaction; memory goes to the current context. Raises no error that
// is about this event alone; see attempt.h.
bool read_line(const EventRow &event, EventLine *line, Failure *why);

// The same, and builds the record. Everything it points to is in the current memory context, in the
// row or in *line. Takes no more memory than a small multiple of what limit_records() has set.
bool read_record(const EventRow &event, TimestampTz now, EventLine *line, Record *record,
                 Failure *why);

// A record's key, value and headers may take so many bytes: the producer refuses what is larger,
// and what is larger is not even built.
void limit_records(size_t bytes);

} // namespace outbox
