// Which partition a record goes to, and whether it may.
#pragma once

#include "bgworker/engine/sink.h"

#include <cstdint>
#include <string_view>

struct rd_kafka_topic_s;
struct rd_kafka_topic_conf_s;

namespace outbox::kafka
{

// Where a record goes, while this exists: to be asked from within produce().
class Choice
{
public:
    explicit Choice(const PartitionGate &gate) noexcept;
    ~Choice();
    Choice(const Choice &) = delete;
    Choice &operator=(const Choice &) = delete;

    const PartitionGate &gate;
    std::int32_t partition = -1;
    bool no_leader = false; // or the gate is closed
};

// The partitioner that is configured, wrapped so that it heeds a Choice.
class Partitioner
{
public:
    // Sets the wrapped one in the configuration that it is read from.
    void wrap(rd_kafka_topic_conf_s *config) noexcept;

    // -1: only librdkafka knows. The topic's partitions are more than 0.
    std::int32_t partition_of(const rd_kafka_topic_s *topic, std::string_view key,
                              std::int32_t partitions) const noexcept;

private:
    std::int32_t (*function_)(const rd_kafka_topic_s *, const void *, std::size_t, std::int32_t,
                              void *, void *) = nullptr;
    bool empty_at_random_ = false; // keys without a byte
};

} // namespace outbox::kafka
