// An event as Kafka gets it: topic, key, value and headers as Debezium's outbox event router with
// its string converter writes them.
#pragma once

#include "bgworker/kafka/producer.h"

#include "event_reader.h"

namespace outbox
{

// Builds the record of an event. Everything it points to is in the current memory context or in
// the event, but for the topic, which is in `topic_buffer`. Returns null, or why the event has no
// topic.
constexpr int kTopicBuffer = 256;
const char *build_record(const EventRow &event, TimestampTz now, char *topic_buffer,
                         kafka::Record *record);

// Why an event is refused whose types make no topic name; `problem` is what build_record() said.
kafka::Failure no_topic(const char *problem);

// Bytes of a record's key, value and headers, as they are before compression.
size_t size_of(const kafka::Record &record);

// What a record takes in memory while it is in flight, roughly.
size_t size_in_flight(const kafka::Record &record);

} // namespace outbox
