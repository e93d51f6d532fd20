// The limit: librdkafka and nothing else, with the relay's configuration, records and bounds.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <librdkafka/rdkafka.h>

#include "bench/support/inputs.h"
#include "support/kafka_client.h"

namespace outbox::bench
{

class BareProducer
{
public:
    // Connects, and waits until the topic's partitions are known. `properties` are added to those
    // that the relay's own code gives to librdkafka.
    BareProducer(const std::string &bootstrap, const std::string &topic,
                 const test::KafkaProperties &properties = {});
    ~BareProducer();
    BareProducer(const BareProducer &) = delete;
    BareProducer &operator=(const BareProducer &) = delete;

    // Queues a record as the relay would make it; waits while too many are in flight.
    void produce(const std::string &key, const std::string &value, uint64_t number);

    // Takes what Kafka has acknowledged, waiting at most this long for something. Throws when a
    // record failed.
    void serve(int wait_ms);

    // Waits until everything is acknowledged.
    void finish();

private:
    test::KafkaHandle client_;
    std::unique_ptr<rd_kafka_queue_t, decltype(&rd_kafka_queue_destroy)> queue_;
    rd_kafka_topic_t *topic_;
    uint64_t in_flight_ = 0;
};

// The process that the drain is measured with: produces `count` of the inputs, as fast as it can,
// then stays until its stdin ends, so that its figures can be read.
void run_bare_producer(const std::string &bootstrap, const std::string &topic, int64_t count);

} // namespace outbox::bench
