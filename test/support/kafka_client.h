#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <librdkafka/rdkafka.h>

namespace outbox::test
{

using KafkaHandle = std::unique_ptr<rd_kafka_t, decltype(&rd_kafka_destroy)>;
using KafkaProperties = std::vector<std::pair<std::string, std::string>>;

// A librdkafka client of `bootstrap`, quiet in the log. Throws when a property is not accepted.
KafkaHandle make_kafka_client(rd_kafka_type_t type, const std::string &bootstrap,
                              const KafkaProperties &properties = {});

// How many partitions `topic` has; 0 when the broker is not there or does not know it (yet).
int partition_count(rd_kafka_t *client, const std::string &topic);

} // namespace outbox::test
