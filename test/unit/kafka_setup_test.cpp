#include "bgworker/sinks/kafka/kafka_setup.h"

#include "kafka_mock_cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

namespace outbox::test
{

// Requests that are answered after a time show how many of them are under way.
TEST(KafkaSetup, OneRequestAtATimeWhateverIsAskedFor)
{
    constexpr int kAnswerMs = 200;
    constexpr std::size_t kBatches = 4;
    MockCluster cluster;
    cluster.create_topic("t", 1);
    for (const char *name : {"", "max.in.flight", "max.in.flight.requests.per.connection"})
    {
        KafkaSetup setup;
        setup.bootstrap_servers = cluster.bootstrap();
        setup.backoff_initial_ms = 10;
        setup.backoff_max_ms = 100;
        setup.max_messages = 1000;
        setup.max_bytes = std::size_t{1} << 20;
        setup.max_event_bytes = 1000;
        setup.properties = {{"batch.num.messages", "1"}, {"linger.ms", "0"}};
        if (name[0] != '\0')
            setup.properties.push_back({name, "5"});
        EXPECT_EQ(wants_many_requests(setup), name[0] != '\0');

        cluster.set_rtt(0);
        const int wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        {
            Failure why;
            const std::unique_ptr<kafka::Producer> producer(
                create_producer(setup, 0, wake_fd, why));
            ASSERT_NE(producer, nullptr) << why.text;
            RecordingSink sink;
            std::uint64_t tag = 0;
            const auto send = [&](std::size_t count)
            {
                const std::size_t before = sink.acked.size();
                for (std::size_t i = 0; i < count; i++)
                {
                    outbox::Record record;
                    record.topic = "t";
                    record.key = "k";
                    record.tag = tag++;
                    ASSERT_EQ(producer->produce(record, why), ProduceResult::queued);
                }
                EXPECT_TRUE(wait_until(kLimit,
                                       [&]
                                       {
                                           (void) producer->serve(sink, 100);
                                           return sink.acked.size() == before + count;
                                       }));
            };
            send(1); // the topic is known then
            cluster.set_rtt(kAnswerMs);
            const auto start = std::chrono::steady_clock::now();
            send(kBatches);
            const std::chrono::duration<double, std::milli> took =
                std::chrono::steady_clock::now() - start;
            EXPECT_GE(took.count(), kAnswerMs * (kBatches - 1.0)) << name;
        }
        close(wake_fd);
    }
}

// Opening a FIFO waits for somebody who writes, and no signal ends that.
TEST(KafkaSetup, OnlyARegularFileIsRead)
{
    std::string directory = "/tmp/outbox-XXXXXX";
    ASSERT_NE(mkdtemp(directory.data()), nullptr);
    const std::string fifo = directory + "/fifo";
    ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
    for (const std::string &path : {fifo, directory, std::string("/dev/zero")})
    {
        KafkaSetup setup;
        Failure why;
        EXPECT_FALSE(read_properties("/", path.c_str(), "", setup, why)) << path;
        EXPECT_THAT(why.text, testing::HasSubstr("\"" + path + "\": it is not a regular file"));
    }
    (void) unlink(fifo.c_str());
    (void) rmdir(directory.c_str());
}

// The relay sends an event that is larger than all that may be in flight alone.
TEST(KafkaSetup, EventLargerThanTheWindowGoes)
{
    constexpr std::size_t kWindow = std::size_t{64} * 1024;
    constexpr std::size_t kEvent = 8 * kWindow;
    MockCluster cluster;
    cluster.create_topic("t", 1);
    KafkaSetup setup;
    setup.bootstrap_servers = cluster.bootstrap();
    setup.backoff_initial_ms = 10;
    setup.backoff_max_ms = 100;
    setup.max_messages = 1000;
    setup.max_bytes = kWindow;
    setup.max_event_bytes = kEvent;
    const int wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    {
        Failure why;
        const std::unique_ptr<kafka::Producer> producer(create_producer(setup, 0, wake_fd, why));
        ASSERT_NE(producer, nullptr) << why.text;
        const std::string value(kEvent, 'x');
        outbox::Record record;
        record.topic = "t";
        record.key = "k";
        record.value = value.data();
        record.value_size = value.size();
        RecordingSink sink;
        ASSERT_EQ(producer->produce(record, why), ProduceResult::queued) << why.text;
        EXPECT_TRUE(wait_until(kLimit,
                               [&]
                               {
                                   (void) producer->serve(sink, 100);
                                   return !sink.acked.empty();
                               }));
    }
    close(wake_fd);
}

// librdkafka would wait for a program to give it a token and say nothing, whatever is under way.
TEST(KafkaSetup, TokensNeedASource)
{
    MockCluster cluster;
    const int wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    const auto reason = [&](std::vector<Property> properties) -> std::string
    {
        KafkaSetup setup;
        setup.bootstrap_servers = cluster.bootstrap();
        setup.properties = std::move(properties);
        Failure why;
        const std::unique_ptr<kafka::Producer> producer(create_producer(setup, 0, wake_fd, why));
        return producer ? "" : why.text;
    };
    for (const char *name : {"sasl.mechanism", "sasl.mechanisms"})
        for (const char *protocol : {"sasl_plaintext", "SASL_SSL"})
            EXPECT_THAT(reason({{"security.protocol", protocol}, {name, "OAUTHBEARER"}}),
                        testing::HasSubstr("has no source of tokens"))
                << name << protocol;
    EXPECT_EQ(reason({{"security.protocol", "sasl_plaintext"},
                      {"sasl.mechanisms", "OAUTHBEARER"},
                      {"enable.sasl.oauthbearer.unsecure.jwt", "true"},
                      {"sasl.oauthbearer.config", "principal=admin"}}),
              "");
    EXPECT_EQ(reason({{"sasl.mechanisms", "OAUTHBEARER"}}), ""); // unused without SASL
    close(wake_fd);
}

} // namespace outbox::test
