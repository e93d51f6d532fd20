#include "kafka_client.h"

#include <array>
#include <stdexcept>

namespace outbox::test
{

KafkaHandle
make_kafka_client(rd_kafka_type_t type, const std::string &bootstrap,
                  const KafkaProperties &properties)
{
    std::array<char, 512> error = {};
    std::unique_ptr<rd_kafka_conf_t, decltype(&rd_kafka_conf_destroy)> conf(rd_kafka_conf_new(),
                                                                            &rd_kafka_conf_destroy);
    KafkaProperties all = {
        {"bootstrap.servers", bootstrap},
        {"log_level", "0"},
        // Tests take brokers away and bring them back, and then want to see them soon.
        {"reconnect.backoff.ms", "50"},
        {"reconnect.backoff.max.ms", "500"},
        {"topic.metadata.refresh.interval.ms", "1000"},
    };
    all.insert(all.end(), properties.begin(), properties.end());
    for (const auto &[name, value] : all)
        if (rd_kafka_conf_set(conf.get(), name.c_str(), value.c_str(), error.data(),
                              error.size()) != RD_KAFKA_CONF_OK)
            throw std::invalid_argument(error.data());

    KafkaHandle client(rd_kafka_new(type, conf.get(), error.data(), error.size()),
                       &rd_kafka_destroy);
    if (!client)
        throw std::runtime_error(error.data());
    conf.release(); // NOLINT(bugprone-unused-return-value): the client owns it now
    return client;
}

int
partition_count(rd_kafka_t *client, const std::string &topic)
{
    constexpr int kLimitMs = 2000;
    std::unique_ptr<rd_kafka_topic_t, decltype(&rd_kafka_topic_destroy)> handle(
        rd_kafka_topic_new(client, topic.c_str(), nullptr), &rd_kafka_topic_destroy);
    const rd_kafka_metadata_t *metadata = nullptr;
    if (rd_kafka_metadata(client, 0, handle.get(), &metadata, kLimitMs) !=
        RD_KAFKA_RESP_ERR_NO_ERROR)
        return 0;
    const int count = metadata->topic_cnt == 1 ? metadata->topics[0].partition_cnt : 0;
    rd_kafka_metadata_destroy(metadata);
    return count;
}

} // namespace outbox::test
