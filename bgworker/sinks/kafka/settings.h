// What a producer is made from.
#pragma once

#include "extension/core/kafka_config.h"

#include <cstddef>
#include <string_view>

namespace outbox::kafka
{

// Everything is only looked at while the producer is created.
struct Settings
{
    // Comma-separated host[:port] list; must not be empty.
    std::string_view bootstrap_servers;
    std::string_view client_id = "outbox";

    // The operator's librdkafka properties; a later one overrides an earlier one and our defaults.
    const Property *properties = nullptr;
    std::size_t property_count = 0;

    // Pause before a lost connection is tried again: doubles from the first to the second, with
    // librdkafka's jitter.
    int backoff_initial_ms = 500;
    int backoff_max_ms = 60000;

    // The most that the caller will have outstanding. librdkafka's own queue is made larger, so
    // that only the caller's window limits it.
    std::size_t max_messages = 100000;
    std::size_t max_bytes = std::size_t{64} * 1024 * 1024;

    // The largest record, which may be outstanding alone when it is more than that.
    std::size_t max_record_bytes = 0;

    // Makes a refused record a fatal error, so that no later record can overtake it.
    bool gapless = false;
};

} // namespace outbox::kafka
