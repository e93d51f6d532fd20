// The checks that emit() and a plain INSERT share, so that nothing reaches the relay that Kafka is
// known to refuse.
#pragma once

#include "pg.h"

namespace outbox
{

// The caller's part of an event, as PostgreSQL values; a null pointer is SQL NULL.
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

// Raises an error that names the value and says what to do:
// null_value_not_allowed, invalid_parameter_value (empty names, both payloads, headers, topic),
// program_limit_exceeded (size) or configuration_limit_exceeded (see check_backlog()).
void check_event(const EventInput &event);

} // namespace outbox
