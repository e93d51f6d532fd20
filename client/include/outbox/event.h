// What an application emits.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>

#include "export.h"

namespace outbox
{
inline namespace v0
{

// A payload of JSON text. PostgreSQL stores it as jsonb, and Kafka gets what jsonb writes.
struct Json
{
    std::string text;
};

// A payload of any bytes, which Kafka gets as they are.
struct Bytes
{
    std::string data;
};

// Texts are in the connection's client encoding, and without zero bytes.
struct Event
{
    std::string aggregate_type; // names the topic
    std::string aggregate_id;   // the Kafka key, unless there is a partition_key
    std::string event_type;
    std::variant<std::monostate, Json, Bytes> payload; // none is a tombstone
    std::map<std::string, std::string> headers;        // sent after those that the relay sets
    std::optional<std::string> partition_key;
    std::optional<std::string> id; // a UUID of the caller's; PostgreSQL makes one if there is none
    std::optional<int> schema_version;
};

} // namespace v0
} // namespace outbox
