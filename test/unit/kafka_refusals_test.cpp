// What follows a refused record: with gapless nothing of its partition goes out behind it.
#include "kafka_mock_cluster.h"

#include "bgworker/sinks/kafka/client_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <thread>

namespace outbox::test
{

namespace
{

using testing::HasSubstr;

// With gapless a refused record stops the producer before later ones go out: the request that is
// ready behind it does not, either. This cluster takes any sequence number, as Kafka does of a
// producer's first batch for a partition.
TEST(KafkaTrouble, GaplessStopsAtARefusedRecord)
{
    MockCluster cluster;
    cluster.create_topic("t", 1);
    Driver driver(cluster.bootstrap(), {{"max.in.flight", "1"}, {"batch.num.messages", "1"}},
                  [](kafka::Settings &settings) { settings.gapless = true; });
    driver.produce("t", "k", "0", 0);
    ASSERT_TRUE(driver.serve_until_settled());
    cluster.set_rtt(500); // all are queued before the first is refused
    cluster.fail_produce(RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
    for (std::uint64_t tag = 1; tag <= 20; tag++)
        driver.produce("t", "k", std::to_string(tag), tag);
    ASSERT_TRUE(driver.serve_until_settled());
    Failure why;
    ASSERT_TRUE(driver.producer().fatal(why));
    EXPECT_STREQ(why.name, "_GAPLESS_GUARANTEE");
    for (const std::string &line : driver.sink().logs)
        EXPECT_THAT(line, testing::Not(HasSubstr("experimental")));
    EXPECT_THAT(driver.sink().acked, testing::ElementsAre(0));
    ASSERT_EQ(driver.sink().failures.size(), 20u);
    // From librdkafka 2.8 what was queued behind it may be reported before it.
    for (const auto &[tag, failure] : driver.sink().failures)
        EXPECT_EQ(failure.cls == FailureClass::event, tag == 1) << tag;
    EXPECT_EQ(std::count_if(driver.sink().failures.begin(), driver.sink().failures.end(),
                            [](const auto &failed) { return failed.first == 1; }),
              1);
}

// A client of librdkafka with the configuration of a relay's producer, but nothing else of it.
class BareClient
{
public:
    explicit BareClient(const std::string &bootstrap)
    {
        const std::vector<Property> properties = {{"max.in.flight", "1"},
                                                  {"batch.num.messages", "1"}};
        kafka::Settings settings = test_settings(bootstrap);
        settings.properties = properties.data();
        settings.property_count = properties.size();
        settings.gapless = true;
        Secrets secrets;
        Failure why;
        kafka::ClientConfig config = kafka::make_client_config(settings, secrets, why);
        if (config == nullptr)
            throw std::runtime_error(why.text);
        char text[512];
        client_.reset(rd_kafka_new(RD_KAFKA_PRODUCER, config.get(), text, sizeof(text)));
        if (client_ == nullptr)
            throw std::runtime_error(text);
        static_cast<void>(config.release());
        queue_.reset(rd_kafka_queue_get_main(client_.get()));
    }

    void produce(std::string value)
    {
        ASSERT_EQ(rd_kafka_producev(client_.get(), RD_KAFKA_VTYPE_TOPIC, "t", RD_KAFKA_VTYPE_VALUE,
                                    value.data(), value.size(), RD_KAFKA_VTYPE_MSGFLAGS,
                                    RD_KAFKA_MSG_F_COPY, RD_KAFKA_VTYPE_END),
                  RD_KAFKA_RESP_ERR_NO_ERROR);
        queued_++;
    }

    // Wakes the threads that send, over and over, until all records are reported. Not faster than
    // they serve wake-ups: with nothing else to do they would never get to send.
    bool settle_awake()
    {
        auto purged = Clock::now();
        const auto deadline = purged + kLimit;
        while (queued_ > 0 && Clock::now() < deadline)
        {
            static_cast<void>(rd_kafka_flush(client_.get(), 0));
            std::this_thread::sleep_for(std::chrono::microseconds(100));
            take_reports();
            // What a dead client has not sent stays in its queue.
            if (is_dead() && since(purged) > Milliseconds(20))
            {
                rd_kafka_purge(client_.get(),
                               RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_NON_BLOCKING);
                purged = Clock::now();
            }
        }
        return queued_ == 0;
    }

    bool is_dead() const
    {
        return rd_kafka_fatal_error(client_.get(), nullptr, 0) != RD_KAFKA_RESP_ERR_NO_ERROR;
    }
    const std::vector<std::string> &acked() const { return acked_; }

private:
    void take_reports()
    {
        const std::unique_ptr<rd_kafka_event_t, decltype(&rd_kafka_event_destroy)> event(
            rd_kafka_queue_poll(queue_.get(), 0), &rd_kafka_event_destroy);
        if (rd_kafka_event_type(event.get()) != RD_KAFKA_EVENT_DR)
            return;
        while (const rd_kafka_message_t *message = rd_kafka_event_message_next(event.get()))
        {
            queued_--;
            if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR)
                acked_.emplace_back(static_cast<const char *>(message->payload), message->len);
        }
    }

    KafkaHandle client_{nullptr, &rd_kafka_destroy};
    std::unique_ptr<rd_kafka_queue_t, decltype(&rd_kafka_queue_destroy)> queue_{
        nullptr, &rd_kafka_queue_destroy};
    int queued_ = 0;
    std::vector<std::string> acked_;
};

// librdkafka builds the second request while the first is under way, and takes it away when another
// of its threads has heard of the refusal. That comes late here for certain: of what the thread
// that sends is told, wake-ups come first, as Producer::send_now() makes them.
TEST(KafkaTrouble, WhatIsReadyBehindARefusedRecordIsNotSent)
{
    MockCluster cluster;
    cluster.create_topic("t", 1);
    BareClient client(cluster.bootstrap());
    client.produce("before");
    ASSERT_TRUE(client.settle_awake());

    cluster.set_rtt(100);
    cluster.fail_produce(RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
    client.produce("refused");
    client.produce("behind");
    ASSERT_TRUE(client.settle_awake());
    EXPECT_TRUE(client.is_dead());
    EXPECT_THAT(client.acked(), testing::ElementsAre("before"));
}

// Kafka refuses what follows a refused record for its sequence number; librdkafka queues it again,
// where a dead producer never sends it.
TEST(KafkaTrouble, DeadProducerReportsWhatWasOnItsWay)
{
    MockCluster cluster;
    cluster.create_topic("t", 1);
    Driver driver(cluster.bootstrap(), {{"batch.num.messages", "1"}},
                  [](kafka::Settings &settings) { settings.gapless = true; });
    driver.produce("t", "k", "0", 0);
    ASSERT_TRUE(driver.serve_until_settled());
    cluster.set_rtt(500);
    cluster.fail_produce(RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
    cluster.fail_produce(RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER, 20);
    for (std::uint64_t tag = 1; tag <= 20; tag++)
        driver.produce("t", "k", std::to_string(tag), tag);
    ASSERT_TRUE(driver.serve_until_settled(std::chrono::seconds(5)))
        << driver.producer().outstanding() << " outstanding";
    EXPECT_EQ(driver.sink().acked.size(), 1u);
    ASSERT_EQ(driver.sink().failures.size(), 20u);
    for (const auto &[tag, failure] : driver.sink().failures)
        EXPECT_STREQ(name_of(failure.cls), tag == 1 ? "event" : "retriable") << failure.name;
}

TEST(KafkaTrouble, WithoutGaplessLaterRecordsOvertake)
{
    MockCluster cluster;
    cluster.create_topic("t", 1);
    Driver driver(cluster.bootstrap(), {{"max.in.flight", "1"}, {"batch.num.messages", "1"}});
    cluster.fail_produce(RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
    for (std::uint64_t tag = 1; tag <= 20; tag++)
        driver.produce("t", "k", std::to_string(tag), tag);
    ASSERT_TRUE(driver.serve_until_settled());
    EXPECT_EQ(driver.sink().failures.size(), 1u);
    EXPECT_EQ(driver.sink().acked.size(), 19u);
}

} // namespace

} // namespace outbox::test
