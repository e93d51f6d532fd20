// What operators do to a running relay.
#include "real_kafka_test.h"
#include "small_topic.h"

using namespace outbox::test;

TEST(Operators, APauseHoldsOverRestartsUntilItIsEnded)
{
    OwnCluster server;
    TestDatabase database(server);
    kafka().create_topic(database.topic());
    database.connect().exec("select outbox.pause('test')");
    const auto emit = [&]
    { return database.connect().value("select outbox.emit($1, 'k', 'e', '{}')", database.type()); };
    const std::string id = emit();
    EXPECT_TRUE(database.reaches_state("paused"));
    for (const Shutdown how : {Shutdown::kFast, Shutdown::kImmediate})
    {
        server.restart(how);
        EXPECT_TRUE(database.reaches_state("paused"));
        emit();
        EXPECT_EQ(database.connect().value("select outbox.wait_published($1, '300 ms')", id), "f");
    }
    Db db = database.connect();
    EXPECT_EQ(db.value("select outbox.resume()"), "t");
    EXPECT_EQ(db.value("select outbox.wait_published($1, '20 s')", id), "t");
    EXPECT_TRUE(database.reaches_state("running"));
    Consumer consumer(kafka().bootstrap(), {database.topic()});
    const Report report = check_delivery(db, consumer);
    EXPECT_TRUE(report.exact()) << report.summary();
}

// One that is ended while it starts has not failed: after failures the next one would come later
// each time, up to a minute.
TEST(Operators, ARelayThatIsEndedWhileItStartsIsThereAgainASecondLater)
{
    OwnCluster server;
    TestDatabase database(server);
    ASSERT_TRUE(database.reaches_state("running"));
    Db db = database.connect();
    db.exec("set client_min_messages = error"); // it may not be known as a process yet
    constexpr const char *kEnd =
        "select coalesce((select pg_terminate_backend(pid) from outbox.relay_status), false)";
    for (int round = 0; round < 8; round++)
    {
        const auto begin = Clock::now();
        const pid_t relay = database.relay_pid();
        ASSERT_TRUE(wait_until(std::chrono::seconds(10), [&] { return db.value(kEnd) == "t"; }));
        ASSERT_TRUE(wait_until(std::chrono::seconds(10),
                               [&]
                               {
                                   return db.value("select pid is null or pid <> $1 from "
                                                   "outbox.relay_status",
                                                   relay) == "t";
                               }));
        EXPECT_LT(since(begin), std::chrono::seconds(5)) << round;
    }
    EXPECT_TRUE(database.reaches_state("running", std::chrono::seconds(5)));
}

// Whoever commits it is another session, which knows nothing of what was done.
TEST(Operators, APauseOfAPreparedTransactionHoldsFromItsCommit)
{
    TestDatabase database(cluster());
    Db db = database.connect();
    ASSERT_TRUE(database.reaches_state("running"));
    for (const char *what : {"pause", "resume"})
    {
        const std::string name = database.name() + what;
        db.exec("begin");
        db.exec(std::string("select outbox.") + what + "()");
        db.exec("prepare transaction '" + name + "'");
        database.connect().exec("commit prepared '" + name + "'");
        EXPECT_TRUE(database.reaches_state(what == std::string("pause") ? "paused" : "running"));
    }
}

// Somebody settles an event by hand and goes for coffee before the commit.
REAL_KAFKA_TEST(Operators, AnOpenTransactionWithARetryHoldsUpNothingElse)
{
    SmallTopic scene(cluster(), {{"outbox.max_attempts", "1000"}});
    const std::string head = scene.emit_too_large("k");
    ASSERT_TRUE(
        wait_until(std::chrono::seconds(20), [&] { return scene.deliveries("RETRYING") == 1; }));
    Db person = scene.connect();
    person.exec("begin");
    person.exec("select outbox.retry($1)", head);
    const pid_t relay = scene.database().relay_pid();
    const auto start = Clock::now();
    for (int i = 0; since(start) < std::chrono::seconds(4); ++i)
    {
        const auto emitted = Clock::now();
        ASSERT_TRUE(scene.arrive({scene.emit("other" + std::to_string(i))})) << scene.describe();
        EXPECT_LT(since(emitted).count(), 900) << "milliseconds";
    }
    EXPECT_EQ(scene.database().relay_pid(), relay);
    person.exec("commit");
    scene.db().exec("select outbox.discard($1, 'test')", head);
    const Ids line = {scene.emit("k")};
    EXPECT_TRUE(scene.arrive(line)) << scene.describe();
}

// An attempt is under way all the time; the event that follows is neither lost nor early.
REAL_KAFKA_TEST(Operators, DiscardingEventsThatAreBeingRetriedLetsTheirLinesFlow)
{
    constexpr int kRounds = 30;
    SmallTopic scene(cluster(), {{"outbox.max_attempts", "1000"},
                                 {"outbox.backoff_initial", "10ms"},
                                 {"outbox.backoff_max", "10ms"}});
    Ids heads;
    for (int round = 0; round < kRounds; ++round)
    {
        const std::string key = "k" + std::to_string(round);
        heads.push_back(scene.emit_too_large(key));
        scene.emit_several(key, 5);
    }
    for (const std::string &head : heads)
    {
        ASSERT_TRUE(wait_until(std::chrono::seconds(20),
                               [&]
                               {
                                   return scene.db().value(
                                              "select count(*) from outbox.deliveries where "
                                              "event_id = $1 and state = 'RETRYING'",
                                              head) == "1";
                               }))
            << scene.describe();
        scene.db().exec("select outbox.discard($1, 'test')", head);
    }
    const Report report = scene.check(heads);
    EXPECT_TRUE(report.exact()) << report.summary() << scene.describe();
    EXPECT_TRUE(wait_until(std::chrono::seconds(10), [&] { return scene.deliveries() == kRounds; }))
        << scene.describe();
}

TEST(Operators, ADrainWaitsForWhatIsUnpublishedAndNotForWhatHasFailed)
{
    TestDatabase database(cluster());
    kafka().create_topic(database.topic());
    Db db = database.connect();
    EXPECT_EQ(db.value("select outbox.drain('20 s')"), "t");
    db.exec("select outbox.pause()");
    const std::string id = db.value("select outbox.emit($1, 'k', 'e', '{}')", database.type());
    EXPECT_EQ(db.value("select outbox.drain('300 ms')"), "f");
    db.exec("select outbox.resume()");
    EXPECT_EQ(db.value("select outbox.drain('20 s')"), "t");
    EXPECT_EQ(db.value("select status from outbox.event_status where id = $1", id), "PUBLISHED");

    db.exec("insert into outbox.deliveries (seq, xid, slot, event_id, lane, topic, partition_key, "
            "state, blocking) select seq, xid, slot, id, 7, 't', 'k', 'WAITING', false "
            "from outbox.events");
    EXPECT_EQ(db.value("select outbox.drain('100 ms')"), "f");
    db.exec("update outbox.deliveries set state = 'FAILED'");
    EXPECT_EQ(db.value("select outbox.drain('100 ms')"), "t");

    // An open transaction's events are waited for once it has committed.
    Db other = database.connect();
    other.exec("begin");
    other.exec("select outbox.emit($1, 'k', 'e', '{}')", database.type());
    EXPECT_EQ(db.value("select outbox.drain('100 ms')"), "t");
    db.exec("select outbox.pause()");
    other.exec("commit");
    EXPECT_EQ(db.value("select outbox.drain('100 ms')"), "f");
    db.exec("select outbox.resume()");
    EXPECT_EQ(db.value("select outbox.drain('20 s')"), "t");
}

// A relay that starts again reads once more what is behind the position, and what was set aside of
// it may have been discarded since the start.
TEST(Operators, WhatIsDiscardedBeforeTheRelayReadsItAgainIsNotPublished)
{
    TestDatabase database(cluster());
    kafka().create_topic(database.topic());
    Consumer consumer(kafka().bootstrap(), {database.topic()});
    Db db = database.connect();
    db.exec("select outbox.pause()");
    ASSERT_TRUE(database.reaches_state("paused"));
    const std::string id = db.value("select outbox.emit($1, 'k', 'e', '{}')", database.type());
    db.exec("insert into outbox.deliveries (seq, xid, slot, event_id, lane, topic, partition_key, "
            "state, blocking, attempts, failed_at, last_error) select seq, xid, slot, id, 7, $2, "
            "'k', 'FAILED', true, 3, now(), 'REFUSED: by the test' from outbox.events "
            "where id = $1",
            id, database.topic());
    database.restart_relay();
    ASSERT_TRUE(database.reaches_state("paused"));
    EXPECT_EQ(db.value("select outbox.discard($1, 'by the test')", id), "t");
    db.exec("select outbox.resume()");
    const std::string next = db.value("select outbox.emit($1, 'k', 'e', '{}')", database.type());
    EXPECT_EQ(db.value("select outbox.wait_published($1, '20 s')", next), "t");
    ASSERT_TRUE(
        consumer.read_until(std::chrono::seconds(20), [&](const std::vector<Record> &records)
                            { return !records.empty() && records.back().header("id") == next; }));
    EXPECT_EQ(consumer.records().size(), 1U);
    EXPECT_EQ(db.value("select status from outbox.event_status where id = $1", id), "DISCARDED");
}
