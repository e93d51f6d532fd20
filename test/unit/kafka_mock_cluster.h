// What the tests of bgworker/sinks/kafka share.
#pragma once

#include "bgworker/sinks/kafka/producer.h"
#include "support/consumer.h"
#include "support/wait.h"

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace outbox::test
{

constexpr Milliseconds kLimit = std::chrono::seconds(20);

// A Kafka-protocol cluster inside this process.
class MockCluster
{
public:
    explicit MockCluster(int brokers = 1);

    std::string bootstrap() const { return rd_kafka_mock_cluster_bootstraps(cluster_.get()); }
    void create_topic(const std::string &topic, int partitions);
    void down() { rd_kafka_mock_broker_set_down(cluster_.get(), -1); }
    void up() { rd_kafka_mock_broker_set_up(cluster_.get(), -1); }
    // Makes the next `count` requests that carry records fail.
    void fail_produce(rd_kafka_resp_err_t error, std::size_t count = 1);
    // Delays every answer.
    void set_rtt(int ms) { rd_kafka_mock_broker_set_rtt(cluster_.get(), -1, ms); }
    // What the cluster says when asked about a topic; NO_ERROR puts it right again.
    void set_topic_error(const std::string &topic, rd_kafka_resp_err_t error);

private:
    KafkaHandle client_;
    std::unique_ptr<rd_kafka_mock_cluster_t, decltype(&rd_kafka_mock_cluster_destroy)> cluster_;
};

// One for all tests that use topics of their own and take nothing away: ending a cluster takes
// librdkafka a second.
MockCluster &shared_cluster();

// Remembers everything it is told.
struct RecordingSink : SinkListener
{
    void delivered(std::uint64_t tag) noexcept override { acked.push_back(tag); }
    void failed(std::uint64_t tag, const Failure &failure) noexcept override
    {
        failures.emplace_back(tag, failure);
    }
    void trouble(const Failure &failure) noexcept override { troubles.push_back(failure); }
    void log(int, const char *, const char *text) noexcept override { logs.emplace_back(text); }

    std::vector<std::uint64_t> acked;
    std::vector<std::pair<std::uint64_t, Failure>> failures;
    std::vector<Failure> troubles;
    std::vector<std::string> logs;
};

// A producer with its wake-up descriptor and sink, driven as the relay drives it.
class Driver
{
public:
    // Creates a producer that must come into being.
    Driver(const std::string &bootstrap, const std::vector<Property> &properties = {},
           const std::function<void(kafka::Settings &)> &adjust = nullptr);
    ~Driver();
    Driver(const Driver &) = delete;
    Driver &operator=(const Driver &) = delete;

    // Queues a record with no headers; an error ends the test.
    void produce(const std::string &topic, const std::string &key, const std::string &value,
                 std::uint64_t tag = 0);

    // Waits for the descriptor and serves, over and over, until the condition holds. Serves only
    // when woken, so a wake-up that is missing shows.
    bool serve_until(const std::function<bool()> &condition, Milliseconds limit = kLimit);
    bool serve_until_settled(Milliseconds limit = kLimit);

    kafka::Producer &producer() { return *producer_; }
    RecordingSink &sink() { return sink_; }
    int wake_fd() const { return wake_fd_; }

    // Destroys the producer and tells how long that took.
    Milliseconds destroy();

private:
    int wake_fd_;
    std::unique_ptr<kafka::Producer> producer_;
    RecordingSink sink_;
};

// The settings that the tests use: quick to reconnect.
kafka::Settings test_settings(const std::string &bootstrap);

// All records of a topic, waiting until there are at least `count`.
std::vector<Record> read_topic(const std::string &bootstrap, const std::string &topic,
                               std::size_t count);

// The values of the records with this key, in their order.
std::vector<std::string> values_of(const std::vector<Record> &records, const std::string &key);

// "0", "1", ... as many as asked for.
std::vector<std::string> numbers(std::size_t count);

} // namespace outbox::test
