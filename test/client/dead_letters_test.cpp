// Records that nobody can process on their way to the dead letters.
#include <atomic>
#include <random>

#include "harness.h"
#include "support/count.h"
#include "support/kafka_admin.h"

using namespace outbox::test;

namespace
{

// Bytes that nobody can compress.
std::string
noise(size_t size)
{
    std::mt19937 random(1);
    std::string bytes;
    while (bytes.size() < size)
        bytes += static_cast<char>(random());
    return bytes;
}

} // namespace

TEST(DeadLetters, APoisonRecordGoesToTheDeadLettersAndTheOthersGoOn)
{
    Scene scene;
    scene.writer.write(scene.topic, "k", "poison", event_id(1),
                       {{"traceparent", "00-4bf9"}, {"dlq_error", "of an earlier time"}}, 2);
    scene.writer.write(scene.topic, "k", "{}", event_id(2), {}, 2);
    outbox::ConsumerOptions options = scene.options();
    options.max_attempts = 3;
    std::atomic<int> failures{0};
    RunningConsumer consumer(options,
                             [&](PGconn *transaction, const outbox::Record &record)
                             {
                                 insert_effect(transaction, record);
                                 if (record.value == "poison")
                                 {
                                     ++failures;
                                     run_sql(transaction, "select 1/0");
                                 }
                             });
    EXPECT_TRUE(scene.drained(options.consumer));
    consumer.finish();
    EXPECT_EQ(failures, 3);
    EXPECT_EQ(scene.effects(), 1);
    const std::vector<Record> letters = scene.dead_letters(1);
    ASSERT_EQ(letters.size(), 1U);
    const Record &letter = letters[0];
    EXPECT_EQ(letter.key, "k");
    EXPECT_EQ(letter.value, "poison");
    EXPECT_EQ(letter.header("id"), event_id(1));
    EXPECT_EQ(letter.header("traceparent"), "00-4bf9");
    EXPECT_NE(letter.header("dlq_error").value_or("").find("division by zero"), std::string::npos);
    EXPECT_EQ(letter.header("dlq_attempts"), "3");
    EXPECT_EQ(letter.header("dlq_consumer"), options.consumer);
    EXPECT_EQ(letter.header("dlq_source_topic"), scene.topic);
    EXPECT_EQ(letter.header("dlq_source_partition"), "2");
    EXPECT_EQ(letter.header("dlq_source_offset"), "0");
    // Sent back once it is mended, it is not taken for one that was processed.
    EXPECT_EQ(scene.db.value("select outbox.is_processed($1, $2)", event_id(1), options.consumer),
              "f");
}

// What the client that wrote it has to say later is not kept until the next one.
TEST(DeadLetters, TheClientOfDeadLettersIsHeardBetweenTwoOfThem)
{
    Scene scene;
    outbox::ConsumerOptions options = scene.options();
    options.kafka_config["debug"] = "metadata,topic";
    options.kafka_config["topic.metadata.refresh.interval.ms"] = "50";
    RunningConsumer consumer(options, &insert_effect);
    scene.writer.write(scene.topic, "k", "{}", "");
    EXPECT_TRUE(wait_until(kSoon, [&] { return consumer.logged("dead letter after"); }));
    // Only that client knows of this topic.
    const auto lines = [&]
    {
        const std::string log = consumer.log();
        return count(log.substr(log.find("dead letter after")), scene.topic + ".dlq");
    };
    EXPECT_TRUE(wait_until(kSoon, [&] { return lines() > 5U; })) << lines();
    consumer.finish();
}

TEST(DeadLetters, ARecordWithoutAnEventIdIsADeadLetterAtOnce)
{
    Scene scene;
    scene.writer.write(scene.topic, "k", "none", "");
    scene.writer.write(scene.topic, "k", "malformed", "not-a-uuid");
    scene.writer.write(scene.topic, "k", "good", "00000000-0000-7000-8000-00000000ABCD");
    std::atomic<int> calls{0};
    outbox::ConsumerOptions options = scene.options();
    options.batch = 10;
    RunningConsumer consumer(options,
                             [&](PGconn *, const outbox::Record &record)
                             {
                                 ++calls;
                                 EXPECT_EQ(record.event_id, "00000000-0000-7000-8000-00000000abcd");
                             });
    EXPECT_TRUE(scene.drained(options.consumer));
    consumer.finish();
    EXPECT_EQ(calls, 1);
    for (const Record &letter : scene.dead_letters(2))
        EXPECT_EQ(letter.header("dlq_attempts"), "0");
}

TEST(DeadLetters, WhenADeadLetterCannotBeWrittenTheConsumerStopsAndNothingIsLost)
{
    Scene scene;
    // Kafka refuses what is too large for a topic.
    const std::string narrow = unique_name("narrow-");
    kafka().create_topic(narrow);
    kafka().create_topic(narrow + ".dlq", 1, {{"max.message.bytes", "1000"}});
    const std::string big = noise(5000);
    scene.writer.write(narrow, "k", "{}", event_id(1), {}, 0);
    scene.writer.write(narrow, "k", big, event_id(2), {}, 0);
    scene.writer.write(narrow, "k", "{}", event_id(3), {}, 0);
    outbox::ConsumerOptions options = scene.options();
    options.topics = {narrow};
    options.max_attempts = 2;
    const auto handler = [&](PGconn *transaction, const outbox::Record &record)
    {
        insert_effect(transaction, record);
        if (record.value == big)
            throw std::runtime_error("too big for me");
    };
    {
        RunningConsumer consumer(options, handler);
        const std::exception_ptr failure = consumer.join();
        ASSERT_TRUE(failure);
        try
        {
            std::rethrow_exception(failure);
        }
        catch (const outbox::DeadLetterError &error)
        {
            EXPECT_EQ(error.code(), "MSG_SIZE_TOO_LARGE") << error.what();
            EXPECT_EQ(error.topic(), narrow);
            EXPECT_EQ(error.partition(), 0);
            EXPECT_EQ(error.offset(), 1);
            EXPECT_NE(std::string(error.what()).find(narrow + "/0 offset 1 " + event_id(2) + " "),
                      std::string::npos)
                << error.what();
        }
    }
    EXPECT_EQ(scene.effects(), 1);
    EXPECT_EQ(group_lag(kafka().bootstrap(), options.consumer, narrow), 2);
    // With a handler that has been mended nothing is missing.
    RunningConsumer mended(options, &insert_effect);
    EXPECT_TRUE(wait_until(kSoon, [&] { return scene.effects() == 3; }));
    mended.finish();
}

// What a broker takes with the least of headers it does not take with those of a dead letter.
TEST(DeadLetters, ARecordThatJustFitsIntoKafkaCanBecomeADeadLetter)
{
    Scene scene;
    const KafkaHandle client = make_kafka_client(RD_KAFKA_PRODUCER, kafka().bootstrap(),
                                                 {{"message.max.bytes", "4000000"}});
    const auto write = [&](const std::string &value, const std::string &id)
    {
        rd_kafka_headers_t *list = rd_kafka_headers_new(1);
        rd_kafka_header_add(list, "id", -1, id.data(), static_cast<ssize_t>(id.size()));
        ASSERT_EQ(rd_kafka_producev(client.get(), RD_KAFKA_VTYPE_TOPIC, scene.topic.c_str(),
                                    RD_KAFKA_VTYPE_PARTITION, 0, RD_KAFKA_VTYPE_MSGFLAGS,
                                    RD_KAFKA_MSG_F_COPY, RD_KAFKA_VTYPE_VALUE,
                                    const_cast<char *>(value.data()), value.size(),
                                    RD_KAFKA_VTYPE_HEADERS, list, RD_KAFKA_VTYPE_END),
                  RD_KAFKA_RESP_ERR_NO_ERROR);
    };
    write(std::string(1048000, 'x'), event_id(1));
    write(noise(1048000), event_id(2));
    ASSERT_EQ(rd_kafka_flush(client.get(), 20000), RD_KAFKA_RESP_ERR_NO_ERROR);
    ASSERT_EQ(records_in(kafka().bootstrap(), scene.topic), 2);
    outbox::ConsumerOptions options = scene.options();
    options.max_attempts = 1;
    RunningConsumer consumer(options, [](PGconn *, const outbox::Record &)
                             { throw std::runtime_error(std::string(1500, 'e')); });
    EXPECT_TRUE(scene.drained(options.consumer));
    consumer.finish();
    EXPECT_EQ(records_in(kafka().bootstrap(), scene.topic + ".dlq"), 2);
}
