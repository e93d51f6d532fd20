#include "kafka_mock_cluster.h"
#include "metadata_broker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace outbox::test
{

namespace
{

using testing::HasSubstr;

constexpr Milliseconds kPrompt = Milliseconds(2000);

bool
was_told(const std::vector<Failure> &troubles, const std::string &name)
{
    return std::any_of(troubles.begin(), troubles.end(),
                       [&](const Failure &trouble) { return trouble.name == name; });
}

Failure
failure_of_first_record(MockCluster &cluster, rd_kafka_resp_err_t error)
{
    Driver driver(cluster.bootstrap());
    cluster.fail_produce(error);
    driver.produce("failing", "k", "v", 7);
    EXPECT_TRUE(driver.serve_until_settled());
    if (driver.sink().failures.size() != 1)
        return Failure();
    EXPECT_EQ(driver.sink().failures[0].first, 7u);
    return driver.sink().failures[0].second;
}

TEST(KafkaTrouble, RefusedRecordIsReportedWithItsReason)
{
    const Failure failure =
        failure_of_first_record(shared_cluster(), RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
    EXPECT_EQ(failure.cls, FailureClass::event);
    EXPECT_EQ(failure.code, 10);
    EXPECT_STREQ(failure.name, "MSG_SIZE_TOO_LARGE");
    EXPECT_THAT(failure.text, HasSubstr("topic \"failing\", partition "));
    EXPECT_THAT(failure.text, HasSubstr("Message size too large"));
    EXPECT_FALSE(failure.possibly_persisted);
}

TEST(KafkaTrouble, RefusalsHaveTheirClass)
{
    MockCluster &cluster = shared_cluster();
    EXPECT_EQ(failure_of_first_record(cluster, RD_KAFKA_RESP_ERR_INVALID_RECORD).cls,
              FailureClass::event);
    EXPECT_EQ(failure_of_first_record(cluster, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED).cls,
              FailureClass::topic);
}

TEST(KafkaTrouble, PassingErrorsAreRetriedInOrder)
{
    MockCluster cluster;
    cluster.create_topic("t", 1);
    Driver driver(cluster.bootstrap(), {{"retry.backoff.ms", "10"}});
    cluster.fail_produce(RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION, 2);
    cluster.fail_produce(RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, 2);
    cluster.fail_produce(RD_KAFKA_RESP_ERR__TRANSPORT, 2);
    for (int i = 0; i < 200; i++)
        driver.produce("t", "k", std::to_string(i));
    ASSERT_TRUE(driver.serve_until_settled());
    EXPECT_EQ(driver.sink().failures.size(), 0u);
    EXPECT_EQ(values_of(read_topic(cluster.bootstrap(), "t", 200), "k"), numbers(200));
}

TEST(KafkaTrouble, BrokerAwayAndBackLosesRepeatsAndReordersNothing)
{
    MockCluster cluster;
    cluster.create_topic("t", 2);
    Driver driver(cluster.bootstrap());
    for (int i = 0; i < 300; i++)
    {
        if (i == 100)
        {
            ASSERT_TRUE(driver.serve_until_settled());
            cluster.down();
        }
        driver.produce("t", "k", std::to_string(i), static_cast<std::uint64_t>(i));
    }
    ASSERT_TRUE(
        driver.serve_until([&] { return was_told(driver.sink().troubles, "_ALL_BROKERS_DOWN"); }));
    EXPECT_EQ(driver.producer().outstanding(), 200u);
    for (const Failure &trouble : driver.sink().troubles)
        EXPECT_EQ(trouble.cls, FailureClass::retriable) << trouble.name;

    cluster.up();
    ASSERT_TRUE(driver.serve_until_settled());
    EXPECT_EQ(driver.sink().failures.size(), 0u);
    const std::set<std::uint64_t> acked(driver.sink().acked.begin(), driver.sink().acked.end());
    EXPECT_EQ(acked.size(), 300u);
    EXPECT_EQ(driver.sink().acked.size(), 300u);
    EXPECT_EQ(values_of(read_topic(cluster.bootstrap(), "t", 300), "k"), numbers(300));
}

TEST(KafkaTrouble, KafkaMayComeLater)
{
    MockCluster cluster;
    cluster.down();
    Driver driver(cluster.bootstrap());
    driver.produce("t", "k", "v");
    ASSERT_TRUE(
        driver.serve_until([&] { return was_told(driver.sink().troubles, "_ALL_BROKERS_DOWN"); }));
    cluster.up();
    EXPECT_TRUE(driver.serve_until_settled());
    EXPECT_EQ(driver.sink().acked.size(), 1u);
}

TEST(KafkaTrouble, MissingTopicIsGivenUpAndFoundWhenItComes)
{
    MockCluster cluster;
    Driver driver(cluster.bootstrap(), {{"topic.metadata.propagation.max.ms", "100"}});
    cluster.set_topic_error("late", RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
    driver.produce("late", "k", "1");
    driver.produce("there", "k", "1");
    ASSERT_TRUE(driver.serve_until_settled());
    ASSERT_EQ(driver.sink().failures.size(), 1u);
    EXPECT_EQ(driver.sink().failures[0].second.cls, FailureClass::topic);
    EXPECT_EQ(driver.sink().acked.size(), 1u);

    // Refused at once from now on, without harm to other topics.
    outbox::Record record;
    record.topic = "late";
    record.key = "k";
    Failure why;
    ASSERT_EQ(driver.producer().produce(record, why), ProduceResult::failed);
    EXPECT_EQ(why.cls, FailureClass::topic);
    EXPECT_THAT(why.text, HasSubstr("topic \"late\""));

    // Long after that librdkafka still asks every second.
    ASSERT_TRUE(driver.serve_until([&] { return driver.producer().serve_within_ms() == -1; }));
    cluster.set_topic_error("late", RD_KAFKA_RESP_ERR_NO_ERROR);
    EXPECT_TRUE(
        wait_until(Milliseconds(5000), [&]
                   { return driver.producer().produce(record, why) == ProduceResult::queued; }));
    EXPECT_TRUE(driver.serve_until_settled());
    EXPECT_EQ(driver.sink().acked.size(), 2u);
}

// As with Kafka itself, which creates a topic when it is first asked for and has it a moment later.
TEST(KafkaTrouble, TopicThatIsBeingCreatedIsFoundQuickly)
{
    MockCluster &cluster = shared_cluster();
    Driver driver(cluster.bootstrap());
    driver.produce("connect-first", "k", "v");
    ASSERT_TRUE(driver.serve_until_settled());

    cluster.set_topic_error("being-created", RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
    const auto start = Clock::now();
    driver.produce("being-created", "k", "v");
    driver.serve_until([&] { return since(start) > Milliseconds(30); });
    cluster.set_topic_error("being-created", RD_KAFKA_RESP_ERR_NO_ERROR);
    ASSERT_TRUE(driver.serve_until_settled());
    // librdkafka alone needs a second.
    EXPECT_LT(since(start), Milliseconds(600));
    EXPECT_EQ(driver.sink().acked.size(), 2u);
    EXPECT_EQ(driver.producer().serve_within_ms(), -1);
}

TEST(KafkaTrouble, TopicThatNeverComesIsNotAskedForForever)
{
    Driver driver("127.0.0.1:1");
    driver.produce("t", "k", "v");
    EXPECT_NE(driver.producer().serve_within_ms(), -1);
    EXPECT_TRUE(driver.serve_until([&] { return driver.producer().serve_within_ms() == -1; }));
}

struct OpenGate : PartitionGate
{
    bool may_pass(std::int32_t) const noexcept override { return true; }
};

ProduceResult
offer(Driver &driver, const std::string &topic, Failure &why)
{
    outbox::Record record;
    record.topic = topic;
    record.key = "k";
    const OpenGate gate;
    Offer offer = {gate};
    return driver.producer().offer(record, offer, why);
}

// Offers one record of each of these topics, those that cannot go yet again with each news of
// topics, until none is left or the time is over. Returns which were refused, each with the class
// topic.
std::set<std::string>
refused_of(Driver &driver, std::vector<std::string> topics, Milliseconds limit)
{
    std::set<std::string> refused;
    const auto offer_all = [&]
    {
        const auto has_ended = [&](const std::string &topic)
        {
            Failure why;
            const ProduceResult result = offer(driver, topic, why);
            if (result == ProduceResult::failed && why.cls == FailureClass::topic)
                refused.insert(topic);
            return result != ProduceResult::not_yet;
        };
        topics.erase(std::remove_if(topics.begin(), topics.end(), has_ended), topics.end());
        return topics.empty();
    };
    if (!offer_all())
        driver.serve_until([&] { return driver.producer().take_topics_changed() && offer_all(); },
                           limit);
    return refused;
}

// librdkafka asks about all topics that it was ever asked for, in a time that grows with the square
// of their number: with 8,000 it does nothing else.
TEST(KafkaTrouble, ThousandsOfMissingTopicsHoldUpNoOther)
{
    constexpr int kMissing = 8000;
    MetadataBroker broker;
    broker.create_topic("there");
    std::vector<std::string> missing;
    // librdkafka 2.8 has no room for answers about many topics with short names, in this version of
    // the question.
    for (int i = 0; i < kMissing; i++)
        missing.push_back("topic-that-nobody-has-made-of-a-tenant-number-" + std::to_string(i));
    std::vector<std::string> topics = missing;
    topics.emplace_back("there");
    Driver driver(broker.bootstrap());
    EXPECT_EQ(refused_of(driver, topics, kLimit),
              std::set<std::string>(missing.begin(), missing.end()));
    EXPECT_EQ(driver.producer().outstanding(), 1u); // of the one that is there
    EXPECT_LE(broker.longest_question(), 1024u);
    EXPECT_LE(broker.names_asked_for(), 1024u);

    // Those that come later are found, whether librdkafka knows them or not.
    for (const std::string &topic : {missing.front(), missing.back()})
    {
        broker.create_topic(topic);
        const auto is_queued = [&]
        {
            Failure why;
            driver.producer().serve(driver.sink(), 1000);
            return offer(driver, topic, why) == ProduceResult::queued;
        };
        EXPECT_TRUE(wait_until(kLimit, is_queued)) << topic;
    }
}

TEST(KafkaTrouble, TopicNameThatKafkaRefuses)
{
    Driver driver(shared_cluster().bootstrap());
    const std::string name(600, 'x');
    outbox::Record record;
    record.topic = name;
    record.key = "k";
    Failure why;
    EXPECT_EQ(driver.producer().produce(record, why), ProduceResult::failed);
    EXPECT_EQ(driver.producer().outstanding(), 0u);
}

TEST(KafkaTrouble, OverlongRecordIsRefusedAtOnce)
{
    Driver driver(shared_cluster().bootstrap());
    const std::string value(1100000, 'x');
    outbox::Record record;
    record.topic = "large";
    record.key = "k";
    record.value = value.data();
    record.value_size = value.size();
    Failure why;
    ASSERT_EQ(driver.producer().produce(record, why), ProduceResult::failed);
    EXPECT_EQ(why.cls, FailureClass::event);
    EXPECT_STREQ(why.name, "MSG_SIZE_TOO_LARGE");
    EXPECT_EQ(driver.producer().outstanding(), 0u);
}

TEST(KafkaTrouble, FatalErrorEndsTheProducerWithReports)
{
    MockCluster cluster;
    Driver driver(cluster.bootstrap());
    driver.produce("t", "k", "0", 1);
    ASSERT_TRUE(driver.serve_until_settled());
    Failure why;
    EXPECT_FALSE(driver.producer().fatal(why));

    cluster.down();
    for (std::uint64_t tag = 2; tag <= 5; tag++)
        driver.produce("t", "k", "v", tag);
    driver.producer().make_fatal(RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER, "made up");
    ASSERT_TRUE(driver.producer().fatal(why));
    EXPECT_EQ(why.cls, FailureClass::fatal);
    EXPECT_STREQ(why.name, "OUT_OF_ORDER_SEQUENCE_NUMBER");
    EXPECT_THAT(why.text, HasSubstr("made up"));

    ASSERT_TRUE(driver.serve_until_settled());
    EXPECT_EQ(driver.sink().failures.size(), 4u);
    for (const auto &[tag, failure] : driver.sink().failures)
        EXPECT_EQ(failure.cls, FailureClass::retriable) << failure.name;
    ASSERT_FALSE(driver.sink().troubles.empty());
    for (const Failure &trouble : driver.sink().troubles)
        EXPECT_EQ(trouble.cls == FailureClass::fatal,
                  trouble.name == std::string("OUT_OF_ORDER_SEQUENCE_NUMBER"));
    EXPECT_TRUE(was_told(driver.sink().troubles, "OUT_OF_ORDER_SEQUENCE_NUMBER"));

    outbox::Record record;
    record.topic = "t";
    record.key = "k";
    EXPECT_EQ(driver.producer().produce(record, why), ProduceResult::failed);
    EXPECT_EQ(why.cls, FailureClass::fatal);
    EXPECT_LT(driver.destroy(), kPrompt);
}

TEST(KafkaTrouble, PurgeReportsEverythingAsRetriable)
{
    MockCluster cluster;
    cluster.down();
    Driver driver(cluster.bootstrap());
    for (std::uint64_t tag = 0; tag < 10; tag++)
        driver.produce("t", "k", "v", tag);
    driver.producer().purge();
    ASSERT_TRUE(driver.serve_until_settled());
    ASSERT_EQ(driver.sink().failures.size(), 10u);
    EXPECT_EQ(driver.sink().failures[0].second.cls, FailureClass::retriable);
    EXPECT_STREQ(driver.sink().failures[0].second.name, "_PURGE_QUEUE");
    EXPECT_FALSE(driver.sink().failures[0].second.possibly_persisted);
}

TEST(KafkaTrouble, DestructionIsPromptWithBrokersAway)
{
    MockCluster cluster;
    Driver driver(cluster.bootstrap());
    driver.produce("t", "k", "v");
    ASSERT_TRUE(driver.serve_until_settled());
    cluster.down();
    for (int i = 0; i < 20000; i++)
        driver.produce("t" + std::to_string(i % 20), "k", "v");
    driver.serve_until([&] { return was_told(driver.sink().troubles, "_ALL_BROKERS_DOWN"); });
    EXPECT_LT(driver.destroy(), kPrompt);
}

// An address of a test network that no router forwards: the connection attempt gets no answer.
TEST(KafkaTrouble, DestructionIsPromptWhileConnecting)
{
    Driver driver("192.0.2.1:9092");
    driver.produce("t", "k", "v");
    EXPECT_LT(driver.destroy(), kPrompt);
}

TEST(KafkaTrouble, UnresolvableNameIsTold)
{
    Driver driver("no-such-host.invalid:9092");
    EXPECT_TRUE(driver.serve_until([&] { return was_told(driver.sink().troubles, "_RESOLVE"); }));
}

} // namespace

} // namespace outbox::test
