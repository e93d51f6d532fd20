// The harness itself: what other tests take for granted about the Kafka they run on.
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "servers.h"
#include "support/consumer.h"
#include "support/workspace.h"

using namespace outbox::test;

namespace
{

// Produces numbered records with one key and waits until all are acknowledged. With idempotence:
// without it, a batch that a Kafka just started refuses is sent again after the one behind it.
void
produce(const std::string &bootstrap, const std::string &topic, int first, int last)
{
    const KafkaHandle producer =
        make_kafka_client(RD_KAFKA_PRODUCER, bootstrap, {{"enable.idempotence", "true"}});
    for (int number = first; number <= last; ++number)
    {
        std::string value = std::to_string(number);
        // The vtype constants instead of the RD_KAFKA_V_… macros, which are made of C casts.
        ASSERT_EQ(rd_kafka_producev(producer.get(), RD_KAFKA_VTYPE_TOPIC, topic.c_str(),
                                    RD_KAFKA_VTYPE_KEY, "k", size_t{1}, RD_KAFKA_VTYPE_VALUE,
                                    value.data(), value.size(), RD_KAFKA_VTYPE_MSGFLAGS,
                                    RD_KAFKA_MSG_F_COPY, RD_KAFKA_VTYPE_HEADER, "number",
                                    value.data(), ssize_t{-1}, RD_KAFKA_VTYPE_TIMESTAMP,
                                    int64_t{1700000000000 + number}, RD_KAFKA_VTYPE_END),
                  RD_KAFKA_RESP_ERR_NO_ERROR);
    }
    ASSERT_EQ(rd_kafka_flush(producer.get(), 20000), RD_KAFKA_RESP_ERR_NO_ERROR);
}

} // namespace

TEST(Harness, KafkaKeepsWhatItAcknowledgedOverStopAndKill)
{
    const std::string topic = unique_name("harness_restart_");
    kafka().create_topic(topic, 3);
    Consumer consumer(kafka().bootstrap(), {topic});
    produce(kafka().bootstrap(), topic, 1, 10);
    ASSERT_TRUE(consumer.read_count(10, std::chrono::seconds(20)));
    kafka().stop();
    kafka().start();
    produce(kafka().bootstrap(), topic, 11, 20);
    kafka().kill9();
    kafka().start();
    produce(kafka().bootstrap(), topic, 21, 30);

    ASSERT_TRUE(consumer.read_count(30, std::chrono::seconds(20)));
    Consumer late(kafka().bootstrap(), {topic});
    ASSERT_TRUE(late.read_count(30, std::chrono::seconds(20)));
    late.read_for(Milliseconds(200));
    ASSERT_EQ(late.records().size(), 30U);
    for (size_t i = 0; i < 30; ++i)
    {
        const Record &record = late.records()[i];
        EXPECT_EQ(record.value, std::to_string(i + 1));
        EXPECT_EQ(record.key, "k");
        EXPECT_EQ(record.header("number"), std::to_string(i + 1));
        EXPECT_EQ(record.timestamp_ms, 1700000000001 + static_cast<int64_t>(i));
        EXPECT_EQ(record.partition, late.records()[0].partition);
    }
}

// The embedded broker answers in its log; the demo's, into the same directory, once took it away.
TEST(Harness, AnotherProgramThatLogsIntoTheSameDirectoryTakesNobodysLog)
{
    const std::filesystem::path ours = new_log("same");
    std::ofstream(ours) << "ours";
    const pid_t other = fork();
    ASSERT_GE(other, 0);
    if (other == 0)
    {
        new_log("same");
        _exit(0);
    }
    ASSERT_EQ(waitpid(other, nullptr, 0), other);
    EXPECT_EQ(read_file(ours), "ours");
}

TEST(Harness, AStoppedKafkaAnswersNobody)
{
    kafka().stop();
    const KafkaHandle client = make_kafka_client(RD_KAFKA_PRODUCER, kafka().bootstrap());
    EXPECT_EQ(partition_count(client.get(), "any"), 0);
    kafka().start();
    EXPECT_TRUE(wait_until(std::chrono::seconds(20),
                           [&] { return partition_count(client.get(), "any") > 0; }));
}
