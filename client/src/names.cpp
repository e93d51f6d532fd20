#include "names.h"

namespace outbox::v0::detail
{

std::string
name_of(const rd_kafka_topic_partition_t &part)
{
    return name_of(part.topic, part.partition);
}

std::string
name_of(const std::string &topic, std::int32_t partition)
{
    return topic + "/" + std::to_string(partition);
}

std::string
name_of(const Record &record)
{
    return name_of(record.topic, record.partition) + " offset " + std::to_string(record.offset) +
           (record.event_id.empty() ? "" : " " + record.event_id);
}

std::string
name_of(std::int64_t offset)
{
    return offset >= 0 ? std::to_string(offset) : "its beginning";
}

} // namespace outbox::v0::detail
