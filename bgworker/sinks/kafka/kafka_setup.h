// From the settings to a producer.
#pragma once

#include "extension/core/kafka_config.h"

#include "producer.h"

#include <string>
#include <vector>

namespace outbox
{

// What a producer is made from, read at one moment; two equal ones make equal producers.
struct KafkaSetup
{
    std::string bootstrap_servers;
    std::string client_id;
    std::vector<Property> properties;
    int backoff_initial_ms = 0;
    int backoff_max_ms = 0;
    std::size_t max_messages = 0;
    std::size_t max_bytes = 0;
    std::size_t max_event_bytes = 0;

    bool operator==(const KafkaSetup &other) const;
};

// Reads outbox.kafka_config_file (a relative path starts at `directory`) and outbox.kafka_config
// into setup->properties. Pure C++; throws std::bad_alloc only. `why` names file, line and reason.
bool read_properties(const char *directory, const char *file, const char *pairs, KafkaSetup &setup,
                     Failure &why);

// Whether more than one request at a time to a broker is asked for, which counts as one.
bool wants_many_requests(const KafkaSetup &setup);

// The largest message that a producer of this setup takes.
std::size_t max_message_bytes(const KafkaSetup &setup) noexcept;

// Returns a producer, or nullptr and the reason. Its batches are smaller by half for each time that
// one was too large. It has one request at a time under way to a broker, whatever the setup says:
// behind a batch that a leader refuses (NOT_ENOUGH_REPLICAS) the next one could be taken, and
// librdkafka holds both for acknowledged then. Throws std::bad_alloc.
kafka::Producer *create_producer(const KafkaSetup &setup, int oversized_batches, int wake_fd,
                                 Failure &why);

} // namespace outbox
