// The limit: librdkafka and nothing else, with the relay's configuration, records and bounds.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <librdkafka/rdkafka.h>

#include "bench/support/inputs.h"
#include "support/kafka_client.h"
#include "support/process.h"
#include "support/wait.h"

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

    // The same, until a moment.
    void serve_until(test::Clock::time_point end);

    // Waits until everything is acknowledged.
    void finish();

private:
    void open_wake_fd();

    test::KafkaHandle client_;
    std::unique_ptr<rd_kafka_queue_t, decltype(&rd_kafka_queue_destroy)> queue_;
    rd_kafka_topic_t *topic_;
    uint64_t in_flight_ = 0;
    // Written to when there is something to serve; -1: nobody has waited for that. librdkafka
    // writes for each turn then, which those that only produce need not pay.
    int wake_fd_ = -1;
};

struct Pace
{
    int rate = 0; // events a second; 0: as fast as it can
    int each = 1; // events at a time
};

// The process that the drain is measured with, and the processor time that a rate takes: produces
// `count` of the inputs, then stays until its stdin ends, so that its figures can be read. At a
// rate it does not wait for fuller batches, and takes reports as they come, as the relay does.
//
// The command starts it.
test::Command bare_producer_command(const std::string &bootstrap, const std::string &topic,
                                    int64_t count, const Pace &pace = {});
void run_bare_producer(const std::string &bootstrap, const std::string &topic, int64_t count,
                       const Pace &pace);

} // namespace outbox::bench
