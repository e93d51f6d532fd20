#include "kafka_mock_cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <poll.h>
#include <thread>

namespace outbox::test
{

namespace
{

using testing::ElementsAre;
using testing::Pair;

bool
is_set(int fd)
{
    pollfd wanted = {fd, POLLIN, 0};
    return poll(&wanted, 1, 0) == 1;
}

TEST(KafkaProducer, RecordArrivesAsItWasGiven)
{
    MockCluster &cluster = shared_cluster();
    Driver driver(cluster.bootstrap());
    const std::string value("{\"a\": \"\xC3\xA4\"}\0after", 16);
    const std::array<Header, 5> headers = {{{"id", "0190163d-8694-739b-aea5-966c26f8ad91"},
                                            {"z", "last in the alphabet, second here"},
                                            {"empty", ""},
                                            {"null", "", true},
                                            {"id", "a second one"}}};
    outbox::Record record;
    record.topic = "orders";
    record.key = "customer-1";
    record.value = value.data();
    record.value_size = value.size();
    record.headers = headers.data();
    record.header_count = headers.size();
    record.timestamp_ms = 1700000000123;
    record.tag = 0xFEDCBA9876543210;
    Failure why;
    ASSERT_EQ(driver.producer().produce(record, why), ProduceResult::queued) << why.text;
    EXPECT_EQ(driver.producer().outstanding(), 1u);
    ASSERT_TRUE(driver.serve_until_settled());
    EXPECT_THAT(driver.sink().acked, ElementsAre(0xFEDCBA9876543210));

    const std::vector<Record> records = read_topic(cluster.bootstrap(), "orders", 1);
    ASSERT_EQ(records.size(), 1u);
    EXPECT_EQ(records[0].key, "customer-1");
    EXPECT_EQ(records[0].value, value);
    EXPECT_EQ(records[0].timestamp_ms, 1700000000123);
    EXPECT_THAT(records[0].headers,
                ElementsAre(Pair("id", "0190163d-8694-739b-aea5-966c26f8ad91"),
                            Pair("z", "last in the alphabet, second here"), Pair("empty", ""),
                            Pair("null", std::nullopt), Pair("id", "a second one")));
}

// send_now() ends the wait for a fuller batch, not that for a connection or for what librdkafka has
// to know of a topic: a record that goes out later waits for its batch again.
void
connect(Driver &driver, const std::string &topic)
{
    const auto goes_out = [&]
    {
        driver.produce(topic, "key", "first");
        driver.producer().send_now();
        return driver.serve_until_settled(Milliseconds(100));
    };
    ASSERT_TRUE(wait_until(kLimit, goes_out));
    driver.sink().acked.clear();
}

TEST(KafkaProducer, SendNowEndsTheWaitForAFullerBatchEveryTime)
{
    MockCluster &cluster = shared_cluster();
    cluster.create_topic("unhurried", 1);
    Driver driver(cluster.bootstrap(), {{"linger.ms", "60000"}});
    connect(driver, "unhurried");
    for (std::uint64_t tag = 0; tag < 200; tag++)
    {
        driver.produce("unhurried", "key", std::to_string(tag), tag);
        driver.producer().send_now();
        ASSERT_TRUE(driver.serve_until_settled()) << tag;
    }
}

// A record that cannot be sent keeps every flush waiting for its whole time; the others must not
// wait for the next flush.
TEST(KafkaProducer, SendNowWorksWhileOtherRecordsAreOnTheirWay)
{
    constexpr std::uint64_t kStuck = 1000;
    MockCluster &cluster = shared_cluster();
    cluster.create_topic("prompt", 1);
    cluster.set_topic_error("nowhere", RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
    Driver driver(cluster.bootstrap(),
                  {{"linger.ms", "60000"}, {"topic.metadata.propagation.max.ms", "60000"}});
    const auto send = [&](std::uint64_t tag)
    {
        driver.produce("prompt", "key", "value", tag);
        driver.producer().send_now();
        return driver.serve_until([&] { return driver.sink().acked.size() == tag + 1; });
    };
    connect(driver, "prompt");
    ASSERT_TRUE(send(0));
    driver.produce("nowhere", "key", "value", kStuck);
    const auto begin = Clock::now();
    for (std::uint64_t tag = 1; tag <= 200; tag++)
        ASSERT_TRUE(send(tag)) << tag;
    EXPECT_LT(since(begin), Milliseconds(1500)); // 20 ms each would be four seconds
}

TEST(KafkaProducer, TombstoneEmptyValueAndEmptyKeyAreDifferentThings)
{
    MockCluster &cluster = shared_cluster();
    cluster.create_topic("values", 1);
    Driver driver(cluster.bootstrap());
    outbox::Record record;
    record.topic = "values";
    record.key = "tombstone";
    record.tombstone = true;
    Failure why;
    ASSERT_EQ(driver.producer().produce(record, why), ProduceResult::queued);
    record.key = "empty";
    record.tombstone = false;
    ASSERT_EQ(driver.producer().produce(record, why), ProduceResult::queued);
    record.key = {};
    ASSERT_EQ(driver.producer().produce(record, why), ProduceResult::queued);
    ASSERT_TRUE(driver.serve_until_settled());

    const std::vector<Record> records = read_topic(cluster.bootstrap(), "values", 3);
    ASSERT_EQ(records.size(), 3u);
    EXPECT_EQ(records[0].value, std::nullopt);
    EXPECT_EQ(records[1].value, "");
    // The broker keeps an empty key as such; librdkafka's consumer shows it without bytes.
    EXPECT_EQ(records[2].key.value_or(""), "");
}

// Murmur2 hashes from the tests of Kafka's Java client.
TEST(KafkaProducer, KeysGoToThePartitionsOfJavaClients)
{
    const std::vector<std::pair<std::string, std::int32_t>> hashes = {
        {"21", -973932308},
        {"foobar", -790332482},
        {"a-little-bit-long-string", -985981536},
        {"a-little-bit-longer-string", -1486304829},
        {"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971},
        {"abc", 479470107}};
    constexpr int kPartitions = 7;
    MockCluster &cluster = shared_cluster();
    cluster.create_topic("vectors", kPartitions);
    Driver driver(cluster.bootstrap());
    for (const auto &[key, hash] : hashes)
        driver.produce("vectors", key, "v");
    ASSERT_TRUE(driver.serve_until_settled());

    std::map<std::string, int> expected;
    for (const auto &[key, hash] : hashes)
        expected[key] = (hash & 0x7FFFFFFF) % kPartitions;
    std::map<std::string, int> found;
    for (const Record &record : read_topic(cluster.bootstrap(), "vectors", hashes.size()))
        found[record.key.value_or("")] = record.partition;
    EXPECT_EQ(found, expected);
}

TEST(KafkaProducer, KeysKeepTheirOrder)
{
    constexpr int kKeys = 10;
    constexpr int kEach = 500;
    constexpr std::size_t kAll = 5000;
    MockCluster &cluster = shared_cluster();
    Driver driver(cluster.bootstrap());
    for (int i = 0; i < kEach * kKeys; i++)
        driver.produce("order", "key" + std::to_string(i % kKeys), std::to_string(i / kKeys));
    ASSERT_TRUE(driver.serve_until_settled());
    const std::vector<Record> records = read_topic(cluster.bootstrap(), "order", kAll);
    for (int key = 0; key < kKeys; key++)
        EXPECT_EQ(values_of(records, "key" + std::to_string(key)), numbers(kEach));
}

TEST(KafkaProducer, FullQueueIsBackPressure)
{
    MockCluster cluster;
    Driver driver(cluster.bootstrap(), {{"queue.buffering.max.messages", "10"}});
    cluster.down();
    for (int i = 0; i < 10; i++)
        driver.produce("t", "k", std::to_string(i));
    outbox::Record record;
    record.topic = "t";
    record.key = "k";
    record.value = "10";
    record.value_size = 2;
    Failure why;
    EXPECT_EQ(driver.producer().produce(record, why), ProduceResult::queue_full);
    EXPECT_EQ(driver.producer().outstanding(), 10u);

    cluster.up();
    ASSERT_TRUE(driver.serve_until_settled());
    EXPECT_EQ(driver.producer().produce(record, why), ProduceResult::queued);
    ASSERT_TRUE(driver.serve_until_settled());
    EXPECT_EQ(values_of(read_topic(cluster.bootstrap(), "t", 11), "k"), numbers(11));
}

TEST(KafkaProducer, CallersWindowFitsIntoTheQueue)
{
    MockCluster cluster;
    cluster.down();
    constexpr std::size_t kMessages = 300;
    constexpr std::size_t kBytes = std::size_t{3} * 1024 * 1024;
    Driver driver(cluster.bootstrap(), {},
                  [](kafka::Settings &settings)
                  { settings.max_messages = kMessages, settings.max_bytes = kBytes; });
    const std::string value(kBytes / kMessages, 'x');
    for (std::size_t i = 0; i < kMessages; i++)
        driver.produce("t", "k", value);
}

// A question about a topic keeps the client alive for a moment after close().
TEST(KafkaProducer, NothingIsSentAfterClose)
{
    MockCluster cluster;
    cluster.create_topic("known", 1);
    {
        Driver driver(cluster.bootstrap(), {{"linger.ms", "50"}});
        driver.produce("known", "k", "first");
        ASSERT_TRUE(driver.serve_until_settled());
        cluster.set_rtt(2000); // of answers
        struct Open final : PartitionGate
        {
            bool may_pass(std::int32_t) const noexcept override { return true; }
        } gate;
        outbox::Record record;
        record.topic = "unknown";
        Offer offer = {gate};
        Failure why;
        ASSERT_EQ(driver.producer().offer(record, offer, why), ProduceResult::not_yet);
        driver.producer().serve(driver.sink(), 1000);
        driver.produce("known", "k", "second");
        EXPECT_FALSE(driver.producer().close(0));
        std::this_thread::sleep_for(Milliseconds(500)); // as long as the question takes, twice
    }
    cluster.set_rtt(0);
    Driver driver(cluster.bootstrap());
    driver.produce("known", "k", "third");
    ASSERT_TRUE(driver.serve_until_settled());
    EXPECT_EQ(values_of(read_topic(cluster.bootstrap(), "known", 2), "k"),
              (std::vector<std::string>{"first", "third"}));
}

TEST(KafkaProducer, RecordLargerThanTheWholeQueueIsRefused)
{
    MockCluster &cluster = shared_cluster();
    Driver driver(cluster.bootstrap(), {{"queue.buffering.max.kbytes", "1"}});
    const std::string value(2000, 'x');
    outbox::Record record;
    record.topic = "t";
    record.key = "k";
    record.value = value.data();
    record.value_size = value.size();
    Failure why;
    ASSERT_EQ(driver.producer().produce(record, why), ProduceResult::failed);
    EXPECT_EQ(why.cls, FailureClass::event);
    EXPECT_STREQ(why.name, "MSG_SIZE_TOO_LARGE");
    EXPECT_THAT(why.text, testing::HasSubstr("queue.buffering.max.kbytes"));
}

TEST(KafkaProducer, FirstRecordOfATopicDoesNotWait)
{
    MockCluster &cluster = shared_cluster();
    Driver driver(cluster.bootstrap());
    for (int i = 0; i < 3; i++)
    {
        const auto start = Clock::now();
        driver.produce("later" + std::to_string(i), "k", "v");
        ASSERT_TRUE(driver.serve_until_settled());
        EXPECT_LT(since(start), Milliseconds(500));
    }
}

TEST(KafkaProducer, WakeUpDescriptorTellsWhetherThereIsWork)
{
    Driver driver(shared_cluster().bootstrap());
    for (int round = 0; round < 3; round++)
    {
        driver.produce("wake", "k", "v");
        ASSERT_TRUE(driver.serve_until_settled());
        driver.producer().serve(driver.sink(), 1000);
        EXPECT_FALSE(is_set(driver.wake_fd()));
    }
    EXPECT_EQ(driver.sink().acked.size(), 3u);
}

TEST(KafkaProducer, StoppingEarlyLeavesTheDescriptorSet)
{
    MockCluster cluster;
    Driver driver(cluster.bootstrap());
    cluster.down();
    // Purged records of different topics come as several events.
    for (int i = 0; i < 20; i++)
        driver.produce("topic" + std::to_string(i), "k", "v");
    driver.producer().purge();
    ASSERT_TRUE(wait_until(kLimit, [&] { return is_set(driver.wake_fd()); }));
    EXPECT_EQ(driver.producer().serve(driver.sink(), 1), 1u);
    EXPECT_TRUE(is_set(driver.wake_fd()));
    ASSERT_TRUE(driver.serve_until_settled());
    EXPECT_EQ(driver.sink().failures.size(), 20u);
}

} // namespace

} // namespace outbox::test
