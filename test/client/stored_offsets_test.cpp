// Offsets in PostgreSQL when its server loses commits, or when Kafka's were used for a time.
#include <atomic>

#include "harness.h"

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
    scene.db.exec("with gone as (select pg_terminate_backend(pid, 10000) from pg_stat_activity"
                  " where application_name like 'outbox consumer%' and datname ="
                  " current_database()) select count(*) from gone");
}

} // namespace

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
