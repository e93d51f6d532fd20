// Handlers that fail, records that nobody can process, and their way to the dead letters.
#include <atomic>
#include <random>

#include "harness.h"
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

TEST(Failure, AHandlerThatThrowsIsCalledAgainAndLeavesNoTraceOfItsFailures)
{
    Scene scene;
    scene.writer.write(scene.topic, "k", "{}", event_id(1));
    scene.writer.write(scene.topic, "k", "{}", event_id(2));
    std::atomic<int> calls{0};
    const outbox::ConsumerOptions options = scene.options();
    RunningConsumer consumer(options,
                             [&](PGconn *transaction, const outbox::Record &record)
                             {
                                 insert_effect(transaction, record);
                                 if (++calls <= 3)
                                     throw std::runtime_error("not yet");
                             });
    EXPECT_TRUE(scene.drained(options.consumer));
    consumer.finish();
    EXPECT_EQ(calls, 5);
    EXPECT_EQ(scene.effects(), 2);
}

TEST(Failure, APoisonRecordGoesToTheDeadLettersAndTheOthersGoOn)
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

TEST(Failure, ABatchWithAPoisonRecordIsDoneOneByOne)
{
    Scene scene;
    for (int i = 0; i < 40; ++i)
        scene.writer.send(scene.topic, "k", i == 17 ? "poison" : "{}", event_id(i), {}, 1);
    scene.writer.flush();
    outbox::ConsumerOptions options = scene.options();
    options.batch = 40;
    options.max_attempts = 2;
    options.offsets = outbox::OffsetPolicy::postgres;
    RunningConsumer consumer(options,
                             [&](PGconn *transaction, const outbox::Record &record)
                             {
                                 insert_effect(transaction, record);
                                 if (record.value == "poison")
                                     throw std::runtime_error("poison");
                             });
    EXPECT_TRUE(scene.drained(options.consumer));
    consumer.finish();
    EXPECT_EQ(scene.effects(), 39);
    EXPECT_EQ(scene.events(), 39);
    EXPECT_EQ(scene.dead_letters(1).size(), 1U);
    EXPECT_EQ(scene.db.value("select next_offset from outbox.stored_offsets($1)"
                             " where kafka_partition = 1",
                             options.consumer),
              "40");
}

// Each attempt loses the partition before it has failed.
TEST(Failure, APoisonRecordThatTakesTooLongIsADeadLetterAfterItsAttempts)
{
    Scene scene;
    for (int i = 0; i < 3; ++i)
        scene.writer.write(scene.topic, "k", i == 1 ? "poison" : "{}", event_id(i), {}, 0);
    outbox::ConsumerOptions options = scene.options();
    options.max_attempts = 2;
    options.kafka_config["max.poll.interval.ms"] = "6000";
    options.kafka_config["session.timeout.ms"] = "6000";
    std::atomic<int> attempts{0};
    RunningConsumer consumer(options,
                             [&](PGconn *transaction, const outbox::Record &record)
                             {
                                 insert_effect(transaction, record);
                                 if (record.value != "poison")
                                     return;
                                 ++attempts;
                                 std::this_thread::sleep_for(Milliseconds(7500));
                                 throw std::runtime_error("poison");
                             });
    EXPECT_TRUE(wait_until(std::chrono::seconds(90), [&] { return scene.effects() == 2; }));
    EXPECT_TRUE(scene.drained(options.consumer));
    consumer.finish();
    EXPECT_EQ(attempts, 2);
    EXPECT_EQ(scene.dead_letters(1).size(), 1U);
}

// The topic is made anew while the handler has lost its partition: the event that has the offset
// now is another one, and begins with all its attempts.
TEST(Failure, AttemptsAreOfTheEventNotOfItsOffset)
{
    Scene scene;
    scene.writer.write(scene.topic, "k", "old", event_id(1), {}, 0);
    outbox::ConsumerOptions options = scene.options();
    options.max_attempts = 1;
    options.kafka_config["max.poll.interval.ms"] = "6000";
    options.kafka_config["session.timeout.ms"] = "6000";
    options.kafka_config["topic.metadata.refresh.interval.ms"] = "500";
    std::atomic<bool> called{false};
    RunningConsumer consumer(options,
                             [&](PGconn *transaction, const outbox::Record &record)
                             {
                                 if (record.value == "old")
                                 {
                                     called = true;
                                     std::this_thread::sleep_for(Milliseconds(9000));
                                     throw std::runtime_error("the old one is bad");
                                 }
                                 insert_effect(transaction, record);
                             });
    ASSERT_TRUE(wait_until(kSoon, [&] { return called.load(); }));
    delete_topic(kafka().bootstrap(), scene.topic);
    kafka().create_topic(scene.topic);
    RecordWriter writer(kafka().bootstrap());
    writer.write(scene.topic, "k", "new", event_id(2), {}, 0);
    EXPECT_TRUE(wait_until(std::chrono::seconds(60),
                           [&] { return scene.effects() == 1 || consumer.logged("dead letter"); }));
    EXPECT_EQ(scene.effects(), 1);
    consumer.finish();
    EXPECT_FALSE(consumer.logged("dead letter")) << consumer.log();
}

// What the client that wrote it has to say later is not kept until the next one.
TEST(Failure, TheClientOfDeadLettersIsHeardBetweenTwoOfThem)
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
        int count = 0;
        for (size_t at = log.find("dead letter after"); at != std::string::npos;
             at = log.find(scene.topic + ".dlq", at + 1))
            ++count;
        return count;
    };
    EXPECT_TRUE(wait_until(kSoon, [&] { return lines() > 5; })) << lines();
    consumer.finish();
}

TEST(Failure, ARecordWithoutAnEventIdIsADeadLetterAtOnce)
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

TEST(Failure, WhenADeadLetterCannotBeWrittenTheConsumerStopsAndNothingIsLost)
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

TEST(Failure, AHandlerThatMistreatsItsTransactionHasFailed)
{
    struct Case
    {
        const char *sql;
        const char *says;
    };
    const std::vector<Case> cases = {{"select 1/0", "let an error of SQL in its transaction pass"},
                                     {"rollback", "ended the transaction"}};
    for (const Case &one : cases)
    {
        Scene scene;
        scene.writer.write(scene.topic, "k", "{}", event_id(1));
        outbox::ConsumerOptions options = scene.options();
        options.max_attempts = 2;
        RunningConsumer consumer(options, [&](PGconn *transaction, const outbox::Record &)
                                 { PQclear(PQexec(transaction, one.sql)); });
        EXPECT_TRUE(scene.drained(options.consumer));
        consumer.finish();
        const std::vector<Record> letters = scene.dead_letters(1);
        ASSERT_EQ(letters.size(), 1U);
        EXPECT_NE(letters[0].header("dlq_error")->find(one.says), std::string::npos);
    }
}

TEST(Failure, WhatACommitRefusesCountsAsAFailureOfItsRecord)
{
    Scene scene;
    scene.db.exec(
        "create table parents (id int primary key);"
        "create table children (id int references parents deferrable initially deferred)");
    scene.writer.write(scene.topic, "k", "{}", event_id(1));
    outbox::ConsumerOptions options = scene.options();
    options.max_attempts = 2;
    RunningConsumer consumer(options, [&](PGconn *transaction, const outbox::Record &)
                             { run_sql(transaction, "insert into children values (1)"); });
    EXPECT_TRUE(scene.drained(options.consumer));
    consumer.finish();
    const std::vector<Record> letters = scene.dead_letters(1);
    ASSERT_EQ(letters.size(), 1U);
    EXPECT_NE(letters[0].header("dlq_error")->find("foreign key"), std::string::npos);
}

TEST(Failure, ASlowHandlerLosesItsPartitionsButNoEffectAndNoneIsMadeTwice)
{
    Scene scene;
    for (int i = 0; i < 8; ++i)
        scene.writer.send(scene.topic, std::to_string(i), "{}", event_id(i), {}, i % 4);
    scene.writer.flush();
    outbox::ConsumerOptions options = scene.options();
    options.kafka_config["session.timeout.ms"] = options.kafka_config["max.poll.interval.ms"] =
        "3000";
    std::atomic<int> slow{0};
    std::atomic<bool> replaced{false}; // by another, which has its partitions
    const auto handler = [&](PGconn *transaction, const outbox::Record &record)
    {
        insert_effect(transaction, record);
        if (record.event_id == event_id(3) && ++slow == 1)
            wait_until(kSoon, [&] { return replaced.load(); });
    };
    RunningConsumer first(options, handler);
    ASSERT_TRUE(wait_until(kSoon, [&] { return slow == 1; }));
    // By itself, as it has not polled; with another one there the group might be quicker.
    ASSERT_TRUE(wait_until(kSoon, [&]
                           { return group_members(kafka().bootstrap(), options.consumer) == 0; }));
    RunningConsumer second(options, handler);
    EXPECT_TRUE(wait_until(kSoon, [&] { return second.logged(scene.topic + "/3"); }));
    replaced = true;
    EXPECT_TRUE(scene.drained(options.consumer));
    EXPECT_TRUE(
        wait_until(kSoon, [&] { return first.logged("MAX_POLL") || second.logged("MAX_POLL"); }));
    first.finish();
    second.finish();
    EXPECT_EQ(scene.effects(), 8);
    EXPECT_EQ(scene.events(), 8);
}

TEST(Failure, ADatabaseWithoutTheExtensionEndsTheConsumerInsteadOfItsRecords)
{
    Scene scene;
    TestDatabase bare(cluster(), TestDatabase::Extension::kNotInstalled);
    scene.writer.write(scene.topic, "k", "{}", event_id(1));
    outbox::ConsumerOptions options = scene.options();
    options.conninfo = cluster().conninfo(bare.name());
    RunningConsumer consumer(options, &insert_effect);
    const std::exception_ptr failure = consumer.join();
    ASSERT_TRUE(failure);
    try
    {
        std::rethrow_exception(failure);
    }
    catch (const outbox::DatabaseError &error)
    {
        EXPECT_EQ(error.code().substr(0, 2), "3F");
    }
    EXPECT_EQ(group_lag(kafka().bootstrap(), options.consumer, scene.topic), 1);
}

// What a broker takes with the least of headers it does not take with those of a dead letter.
TEST(Failure, ARecordThatJustFitsIntoKafkaCanBecomeADeadLetter)
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

// What a handler throws after a serialization failure, or not at all, says less than the SQLSTATE.
TEST(Failure, ASerializationFailureIsNotCountedWhateverTheHandlerMakesOfIt)
{
    for (const size_t batch : {1, 2})
    {
        Scene scene;
        scene.db.exec("create table balances (balance int); insert into balances values (0)");
        Db other = scene.database.connect();
        for (int i = 0; i < 2; ++i)
            scene.writer.send(scene.topic, "k", "{}", event_id(i), {}, 0);
        scene.writer.flush();
        outbox::ConsumerOptions options = scene.options();
        options.conninfo += " options='-c default_transaction_isolation=serializable'";
        options.max_attempts = 1;
        options.batch = batch;
        std::atomic<int> calls{0};
        RunningConsumer consumer(
            options,
            [&](PGconn *transaction, const outbox::Record &)
            {
                const int call = ++calls;
                if (call <= 4) // somebody else is quicker
                    other.exec("update balances set balance = balance + 1");
                run_sql(transaction, "savepoint s");
                const std::string code = code_of(
                    [&] { run_sql(transaction, "update balances set balance = balance + 10"); });
                if (code.empty())
                    return;
                if (call == 2 || call == 4)
                    run_sql(transaction, "rollback to s");
                if (call <= 2)
                    throw std::runtime_error("as client libraries do");
                if (call == 4)
                    throw call;
            });
        EXPECT_TRUE(scene.drained(options.consumer));
        consumer.finish();
        EXPECT_EQ(scene.db.value("select balance from balances"), "24");
        EXPECT_EQ(records_in(kafka().bootstrap(), scene.topic + ".dlq"), 0);
    }
}

TEST(Failure, ARecordThatEndsItsConnectionEachTimeIsADeadLetterAtLast)
{
    for (const size_t batch : {1, 3})
    {
        Scene scene;
        for (int i = 0; i < 3; ++i)
            scene.writer.send(scene.topic, "k", i == 1 ? "poison" : "", event_id(i), {}, 0);
        scene.writer.flush();
        outbox::ConsumerOptions options = scene.options();
        options.backoff_max = Milliseconds(20);
        options.batch = batch;
        options.offsets = batch == 1 ? outbox::OffsetPolicy::kafka : outbox::OffsetPolicy::postgres;
        std::atomic<int> calls{0};
        RunningConsumer consumer(options,
                                 [&](PGconn *transaction, const outbox::Record &record)
                                 {
                                     insert_effect(transaction, record);
                                     if (record.value != "poison")
                                         return;
                                     ++calls;
                                     run_sql(transaction,
                                             "select pg_terminate_backend(pg_backend_pid())");
                                 });
        EXPECT_TRUE(scene.drained(options.consumer));
        consumer.finish();
        EXPECT_EQ(scene.effects(), 2);
        EXPECT_EQ(calls, batch == 1 ? 10 : 11); // once with the others
        const std::vector<Record> letters = scene.dead_letters(1);
        ASSERT_EQ(letters.size(), 1U);
        EXPECT_EQ(letters[0].header("dlq_attempts"), "10");
        EXPECT_NE(letters[0].header("dlq_error").value_or("").find("connection was lost"),
                  std::string::npos);
    }
}
