// Configurations of librdkafka: ours, and what callers may add.
#pragma once

#include <map>
#include <memory>
#include <string>

#include <librdkafka/rdkafka.h>

#include "outbox/export.h"

namespace outbox::v0::detail
{

using KafkaProperties = std::map<std::string, std::string>;
using KafkaConfig = std::unique_ptr<rd_kafka_conf_t, decltype(&rd_kafka_conf_destroy)>;

// The configuration of a member of the group `group`, and of the producer of its dead letters. With
// `own_offsets` an offset that the partition does not have is an error, because somebody has to
// look: the topic was deleted and made again, or has dropped records that were not processed. Both
// throw UsageError for a property that librdkafka does not take, and for one that would break a
// promise. No message has the value of a property that may be secret.
KafkaConfig make_member_config(const std::string &bootstrap_servers, const std::string &group,
                               bool own_offsets, const KafkaProperties &properties);
KafkaConfig make_dead_letter_config(const std::string &bootstrap_servers, int timeout_ms,
                                    const KafkaProperties &properties);

// Throws UsageError if librdkafka refuses to make a client of this configuration, as properties may
// contradict each other. Connects to nothing: the client has no address, and none of the properties
// that say how to speak to one, whose files may be there only later.
void try_config(rd_kafka_type_t type, const KafkaConfig &config);

// A client of this configuration. Throws UsageError if librdkafka refuses it, and Error 53000 if
// the process has no thread left for it.
rd_kafka_t *make_client(rd_kafka_type_t type, KafkaConfig config);

// Whether these properties ask for partitions that come and go one by one.
bool wants_cooperative_rebalancing(const KafkaProperties &properties);

// Throws KafkaError, with the name of the error, in one sentence.
[[noreturn]] void throw_kafka_error(const std::string &what, rd_kafka_resp_err_t error);

} // namespace outbox::v0::detail
