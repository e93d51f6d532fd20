// Handlers that fail, and records that nobody can process.
#include <atomic>
#include <set>

#include "harness.h"
#include "support/kafka_admin.h"

using namespace outbox::test;

namespace
{

// A handler that takes longer loses its partitions.
void
set_poll_interval(outbox::ConsumerOptions &options)
{
    options.kafka_config["session.timeout.ms"] = options.kafka_config["max.poll.interval.ms"] =
        "3000";
}

// Until the only member has left the group, as it has not polled.
void
wait_until_lost(const outbox::ConsumerOptions &options)
{
    EXPECT_TRUE(wait_until(kSoon, [&]
                           { return group_members(kafka().bootstrap(), options.consumer) == 0; }));
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
    set_poll_interval(options);
    std::atomic<int> attempts{0};
    RunningConsumer consumer(options,
                             [&](PGconn *transaction, const outbox::Record &record)
                             {
                                 insert_effect(transaction, record);
                                 if (record.value != "poison")
                                     return;
                                 ++attempts;
                                 wait_until_lost(options);
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
    set_poll_interval(options);
    options.kafka_config["topic.metadata.refresh.interval.ms"] = "500";
    std::atomic<bool> called{false};
    std::atomic<bool> made_anew{false};
    RunningConsumer consumer(options,
                             [&](PGconn *transaction, const outbox::Record &record)
                             {
                                 if (record.value == "old")
                                 {
                                     called = true;
                                     wait_until_lost(options);
                                     wait_until(kSoon, [&] { return made_anew.load(); });
                                     throw std::runtime_error("the old one is bad");
                                 }
                                 insert_effect(transaction, record);
                             });
    ASSERT_TRUE(wait_until(kSoon, [&] { return called.load(); }));
    delete_topic(kafka().bootstrap(), scene.topic);
    kafka().create_topic(scene.topic);
    RecordWriter writer(kafka().bootstrap());
    writer.write(scene.topic, "k", "new", event_id(2), {}, 0);
    made_anew = true;
    EXPECT_TRUE(wait_until(std::chrono::seconds(60),
                           [&] { return scene.effects() == 1 || consumer.logged("dead letter"); }));
    EXPECT_EQ(scene.effects(), 1);
    consumer.finish();
    EXPECT_FALSE(consumer.logged("dead letter")) << consumer.log();
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
    set_poll_interval(options);
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
    wait_until_lost(options);
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

// Of another connection than the consumer's own, which has nothing.
TEST(Failure, ARecordWhoseHandlerThrowsOfALostConnectionEachTimeIsADeadLetterAtLast)
{
    const std::vector<std::string> codes = {"08000", "08001", "08003", "08004", "08006", "08P01",
                                            "57P01", "57P02", "57P03", "57P04", "57P05"};
    for (const size_t batch : {1, 4})
    {
        Scene scene;
        int number = 0;
        for (const std::string &code : codes)
        {
            scene.writer.send(scene.topic, "k", code, event_id(++number), {}, 0);
            scene.writer.send(scene.topic, "k", "", event_id(++number), {}, 0);
        }
        scene.writer.flush();
        outbox::ConsumerOptions options = scene.options();
        options.backoff_initial = options.backoff_max = Milliseconds(10);
        options.batch = batch;
        options.max_attempts = 2; // of failures
        std::set<std::string> sessions;
        RunningConsumer consumer(
            options,
            [&](PGconn *transaction, const outbox::Record &record)
            {
                sessions.insert(run_sql(transaction, "select pg_backend_pid()"));
                insert_effect(transaction, record);
                if (!record.value->empty())
                    throw outbox::DatabaseError("no other database", *record.value);
            });
        EXPECT_TRUE(scene.drained(options.consumer)) << consumer.log();
        consumer.finish();
        EXPECT_EQ(scene.effects(), static_cast<int>(codes.size()));
        EXPECT_EQ(sessions.size(), 1U) << "its own connection was fine";
        for (const Record &letter : scene.dead_letters(codes.size()))
        {
            EXPECT_EQ(letter.header("dlq_attempts"), "10");
            EXPECT_EQ(letter.header("dlq_error"), "a connection was lost in the handler 10 times: "
                                                  "no other database (" +
                                                      letter.value.value_or("") + ")");
        }
    }
}
