#include "bgworker/sinks/kafka/kafka_setup.h"

#include "kafka_mock_cluster.h"

#include <gtest/gtest.h>

#include <sys/eventfd.h>
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

} // namespace outbox::test
