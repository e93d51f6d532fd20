// Offsets in PostgreSQL when its server loses commits, or when Kafka's were used for a time.
#include <atomic>

#include "harness.h"
#include "support/kafka_client.h"

using namespace outbox::test;

namespace
{

outbox::ConsumerOptions
in_postgres(const Scene &scene)
{
    outbox::ConsumerOptions options = scene.options();
    options.offsets = outbox::OffsetPolicy::postgres;
    return options;
}

void
write(Scene &scene, int from, int to)
{
    for (int i = from; i < to; ++i)
        scene.writer.send(scene.topic, "k", "", event_id(i), {}, 0);
    scene.writer.flush();
}

// As after a fail-over to a standby that was behind: the commits since this event are not there
// when the consumer, which has nothing to do, comes back. It may do so at once.
void
lose_commits(Scene &scene, int since)
{
    const std::string lost = " where event_id >= '" + event_id(since) + "'";
    const std::string offset =
        since == 0 ? "delete from outbox.consumer_offsets"
                   : "update outbox.consumer_offsets set next_offset = " + std::to_string(since);
    scene.db.exec("delete from effects" + lost + "; delete from outbox.processed_events" + lost +
                  "; " + offset);
    // Now it connects again, and sees this.
    scene.db.exec("with gone as (select pg_terminate_backend(pid, 10000) from pg_stat_activity"
                  " where application_name like 'outbox consumer%' and datname ="
                  " current_database()) select count(*) from gone");
}

// Processes the records up to this one, which it writes.
std::string
run_to(Scene &scene, const outbox::ConsumerOptions &options, int from, int to, int effects)
{
    RunningConsumer consumer(options, &insert_effect);
    write(scene, from, to);
    EXPECT_TRUE(scene.reaches(effects));
    EXPECT_TRUE(scene.drained(options.consumer));
    consumer.finish();
    EXPECT_EQ(scene.effects(), effects);
    EXPECT_EQ(scene.events(), effects);
    return consumer.log();
}

// As a client before 0.2.1 does: without saying how offsets are kept.
void
commit_as_an_older_client(const Scene &scene, const std::string &group, int64_t offset)
{
    const KafkaHandle client =
        make_kafka_client(RD_KAFKA_CONSUMER, kafka().bootstrap(), {{"group.id", group}});
    const std::unique_ptr<rd_kafka_topic_partition_list_t,
                          decltype(&rd_kafka_topic_partition_list_destroy)>
        list(rd_kafka_topic_partition_list_new(1), &rd_kafka_topic_partition_list_destroy);
    rd_kafka_topic_partition_list_add(list.get(), scene.topic.c_str(), 0)->offset = offset;
    ASSERT_EQ(rd_kafka_commit(client.get(), list.get(), 0), RD_KAFKA_RESP_ERR_NO_ERROR);
}

} // namespace

// The consumer lives, has gone back to where it began, and is stopped before it has done anything
// again. Kafka's offset is still the higher one.
TEST(StoredOffsets, WithoutARowARestartBeginsWhereItBeganFirst)
{
    Scene scene;
    const outbox::ConsumerOptions options = in_postgres(scene);
    write(scene, 0, 2);
    commit_as_an_older_client(scene, options.consumer, 2);
    const std::string first = run_to(scene, options, 2, 3, 1);
    EXPECT_NE(first.find(scene.topic + "/0 begins at 2"), std::string::npos) << first;
    {
        std::atomic<bool> fails{false};
        outbox::ConsumerOptions patient = options;
        patient.max_attempts = 1000;
        RunningConsumer consumer(patient, // which finds a row
                                 [&](PGconn *transaction, const outbox::Record &record)
                                 {
                                     if (fails)
                                         throw std::runtime_error("out of order");
                                     insert_effect(transaction, record);
                                 });
        write(scene, 3, 5);
        EXPECT_TRUE(scene.reaches(3));
        EXPECT_TRUE(scene.drained(options.consumer));
        fails = true;
        lose_commits(scene, 0);
        EXPECT_TRUE(wait_until(kSoon, [&] { return consumer.logged("attempt 1 of"); }));
        EXPECT_TRUE(consumer.logged("continues at 2 after 5")) << consumer.log();
        consumer.finish();
        EXPECT_EQ(scene.effects(), 0);
    }
    const std::string last = run_to(scene, options, 5, 6, 4);
    EXPECT_NE(last.find("goes back to 2, where it began"), std::string::npos) << last;
}

TEST(StoredOffsets, WhatAFailOverHasLostIsDoneAgainByTheConsumerThatLivesOn)
{
    for (const size_t batch : {1, 4})
        for (const int since : {3, 0})
        {
            Scene scene;
            outbox::ConsumerOptions options = in_postgres(scene);
            options.batch = batch;
            RunningConsumer consumer(options, &insert_effect);
            write(scene, 0, 8);
            ASSERT_TRUE(scene.reaches(8));
            EXPECT_TRUE(scene.drained(options.consumer));
            lose_commits(scene, since);
            if (since == 0)
                write(scene, 8, 9); // otherwise without anything to do
            EXPECT_TRUE(scene.reaches(since == 0 ? 9 : 8));
            EXPECT_TRUE(scene.drained(options.consumer));
            consumer.finish();
            EXPECT_EQ(scene.effects(), since == 0 ? 9 : 8);
            EXPECT_EQ(scene.events(), since == 0 ? 9 : 8);
            EXPECT_TRUE(consumer.logged("it has lost commits"));
        }
}

// After a crash the server gives numbers of transactions once more, to somebody else, that it had
// not written down: so the handler's, unless a process of its own flushed the log meanwhile.
TEST(StoredOffsets, ACrashInAHandlerIsNotTakenForItsCommit)
{
    OwnCluster server(Settings{{"wal_writer_delay", "10s"}});
    server.expect_kill();
    Scene scene(server);
    write(scene, 0, 3);
    outbox::ConsumerOptions options = scene.options(); // offsets in Kafka
    options.max_attempts = 1;
    std::atomic<int> calls{0};
    std::atomic<int> backend{0}; // of a handler that waits for its end
    std::atomic<bool> crash{true};
    std::atomic<int64_t> number{0};
    RunningConsumer consumer(options,
                             [&](PGconn *transaction, const outbox::Record &record)
                             {
                                 ++calls;
                                 if (!crash)
                                     return insert_effect(transaction, record);
                                 number = std::stoll(
                                     run_sql(transaction, "select pg_current_xact_id()"));
                                 run_sql(transaction, "savepoint s; rollback to s");
                                 backend = PQbackendPID(transaction);
                                 wait_until(2 * kSoon, [&] { return backend == 0; });
                                 run_sql(transaction, "select 1");
                             });
    int crashes = 0;
    constexpr int kMostCrashes = 5;
    while (crash && crashes < kMostCrashes)
    {
        ASSERT_TRUE(wait_until(kSoon, [&] { return backend != 0; }));
        scene.database.kill_process(backend);
        ++crashes;
        scene.db = scene.database.connect();
        crash = std::stoll(scene.db.value("select pg_current_xact_id()")) > number;
        for (int i = 0; i < 40; ++i)
            scene.db.exec("insert into effects values (null)");
        backend = 0;
    }
    EXPECT_FALSE(crash) << "the number was never given again";
    EXPECT_TRUE(scene.drained(options.consumer));
    consumer.finish();
    EXPECT_EQ(calls, crashes + 3);
    EXPECT_EQ(scene.events(), 3);
    EXPECT_EQ(records_in(kafka().bootstrap(), scene.topic + ".dlq"), 0);
}

TEST(StoredOffsets, WhatWasDoneWhileTheyWereInKafkaIsNotRepeated)
{
    Scene scene;
    outbox::ConsumerOptions options = in_postgres(scene);
    const auto run = [&](outbox::OffsetPolicy policy, int count)
    {
        options.offsets = policy;
        RunningConsumer consumer(options, &insert_effect);
        write(scene, count - 1, count);
        EXPECT_TRUE(scene.reaches(count));
        EXPECT_TRUE(scene.drained(options.consumer));
        consumer.finish();
    };
    run(outbox::OffsetPolicy::postgres, 1);
    run(outbox::OffsetPolicy::kafka, 2);
    scene.db.exec("delete from outbox.processed_events"); // the retention is over
    run(outbox::OffsetPolicy::postgres, 3);
    EXPECT_EQ(scene.effects(), 3);
    EXPECT_EQ(scene.db.value("select max(next_offset) from outbox.consumer_offsets"), "3");
}
