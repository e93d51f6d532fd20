// How messages name what is in Kafka.
#pragma once

#include <cstdint>
#include <string>

#include <librdkafka/rdkafka.h>

#include "outbox/consumer.h"

namespace outbox::v0::detail
{

// "topic/3"
std::string name_of(const rd_kafka_topic_partition_t &part);
std::string name_of(const std::string &topic, std::int32_t partition);
// "topic/3 offset 17 <event>"
std::string name_of(const Record &record);
// "17" or "its beginning"
std::string name_of(std::int64_t offset);

} // namespace outbox::v0::detail
