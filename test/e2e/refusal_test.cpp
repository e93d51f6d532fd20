// Kafka refuses an event: its key waits or does not, as configured; all others continue.
#include "real_kafka_test.h"
#include "small_topic.h"

using namespace outbox::test;

namespace
{

Ids
operator+(Ids a, const Ids &b)
{
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

} // namespace

REAL_KAFKA_TEST(Refusal, ATooLargeEventHoldsUpItsKeyOnlyAndItsLineFollowsInOrderAfterARetry)
{
    SmallTopic scene(cluster());
    const std::string first = scene.emit_too_large("k");
    const Ids line = scene.emit_several("k", 2);
    const Ids others = scene.emit_several("other", 20);
    ASSERT_TRUE(scene.arrive(others)) << scene.describe();
    ASSERT_TRUE(scene.reaches_status(first, "FAILED")) << scene.describe();
    ASSERT_TRUE(scene.arrive({scene.emit("third")})) << scene.describe();
    scene.expect_only("k", {});
    EXPECT_EQ(scene.status(line[0]), "NEW");
    // The position has passed them, and yet they are not published.
    EXPECT_EQ(scene.db().value("select outbox.wait_published($1, '10 ms')", first), "f");
    EXPECT_EQ(scene.db().value("select outbox.wait_published($1, '10 ms')", line[0]), "f");
    EXPECT_EQ(scene.db().value("select event_id || ' ' || attempts || ' ' || waiting_behind || ' ' "
                               "|| split_part(last_error, ':', 1) from outbox.dead_letters"),
              first + " 3 2 MSG_SIZE_TOO_LARGE");
    EXPECT_EQ(scene.db().value("select attempts || ' ' || split_part(last_error, ':', 1) "
                               "from outbox.event_status where id = $1",
                               first),
              "3 MSG_SIZE_TOO_LARGE");
    EXPECT_EQ(
        scene.db().value("select failed_events || ' ' || waiting_events || ' ' || "
                         "(oldest_waiting_at = (select created_at from outbox.events where id "
                         "= $1)) from outbox.relay_status",
                         line[0]),
        "1 2 true");

    scene.raise_limit();
    EXPECT_EQ(scene.db().value("select outbox.retry($1)", first), "t");
    ASSERT_TRUE(scene.arrive(Ids{first} + line)) << scene.describe();
    scene.expect_only("k", Ids{first} + line);
    EXPECT_TRUE(scene.reaches_status(line[1], "PUBLISHED"));
    EXPECT_EQ(scene.db().value("select outbox.wait_published($1)", first), "t");
    EXPECT_EQ(scene.deliveries(), 0);
    const Report report = scene.check();
    EXPECT_TRUE(report.exact()) << report.summary();
}

REAL_KAFKA_TEST(Refusal, WhatWaitsBehindADiscardedEventFollowsInOrder)
{
    SmallTopic scene(cluster());
    const std::string first = scene.emit_too_large("k");
    const Ids line = scene.emit_several("k", 50);
    ASSERT_TRUE(scene.reaches_status(first, "FAILED")) << scene.describe();
    scene.expect_only("k", {});

    EXPECT_EQ(scene.db().value("select outbox.discard($1, 'not needed')", first), "t");
    const Ids later = scene.emit_several("k", 50);
    ASSERT_TRUE(scene.arrive(line + later)) << scene.describe();
    scene.expect_only("k", line + later);
    EXPECT_EQ(scene.status(first), "DISCARDED");
    EXPECT_TRUE(wait_until(std::chrono::seconds(5), [&] { return scene.deliveries() == 1; }));
}

REAL_KAFKA_TEST(Refusal, WithOnFailureSkipLaterEventsOfTheKeyFlowAtOnce)
{
    SmallTopic scene(cluster(), {{"outbox.on_failure", "skip"}});
    const Ids before = scene.emit_several("k", 2);
    const std::string large = scene.emit_too_large("k");
    const Ids after = scene.emit_several("k", 2);
    ASSERT_TRUE(scene.arrive(before + after)) << scene.describe();
    ASSERT_TRUE(scene.reaches_status(large, "FAILED")) << scene.describe();
    scene.expect_only("k", before + after);
    EXPECT_EQ(scene.deliveries(), 1);
}

// One transaction, so that all of them are in librdkafka's queue together. None of those behind a
// culprit of their key gets out, and none of the others is blamed.
REAL_KAFKA_TEST(Refusal, OnlyTheCulpritsOfABatchAreSetAsideAndNothingOvertakesThem)
{
    constexpr int kEvents = 4000;
    SmallTopic scene(cluster(), {{"outbox.max_attempts", "1"}}, 4);
    Db &db = scene.db();
    // Forty keys; in five of them one event is too large.
    db.exec(
        "select outbox.emit($1, 'k' || i % 40, 'e', case when i in (1001, 1002, 1703, 2504, "
        "3999) then to_jsonb(repeat('x', 6000)) else '{}' end) from generate_series(1, $2::int) i",
        scene.database().type(), kEvents);
    const Ids culprits =
        db.column("select id from outbox.events where pg_column_size(payload) > 100 or "
                  "length(payload::text) > 100 order by seq");
    ASSERT_EQ(culprits.size(), 5U);
    const Ids behind = db.column(
        "select e.id from outbox.events e join outbox.events c on c.aggregate_id = e.aggregate_id "
        "and c.seq < e.seq and length(c.payload::text) > 100");
    const auto settled = [&]
    { return scene.deliveries("FAILED") == 5 && scene.deliveries() == 5 + int(behind.size()); };
    EXPECT_TRUE(wait_until(std::chrono::seconds(30), settled)) << scene.describe();
    EXPECT_EQ(db.column("select event_id from outbox.dead_letters order by seq"), culprits);
    const Report held = scene.check(culprits + behind);
    EXPECT_TRUE(held.complete_and_ordered()) << held.summary();

    db.exec("select outbox.discard(event_id, 'test') from outbox.dead_letters");
    const Report report = scene.check(culprits);
    EXPECT_TRUE(report.complete_and_ordered()) << report.summary();
    // Nothing but what went out together with a culprit is sent again, and that was not accepted.
    EXPECT_EQ(report.duplicates, 0U) << report.summary();
}

// A refused batch of two: an event that waited in a line, and a new one that went out beside it.
REAL_KAFKA_TEST(Refusal, ANewEventIsNotBlamedForOneThatIsReleasedBesideIt)
{
    SmallTopic scene(cluster(), {{"outbox.max_attempts", "1"}});
    const std::string head = scene.emit_too_large("k");
    const std::string second = scene.emit_too_large("k");
    ASSERT_TRUE(scene.reaches_status(head, "FAILED")) << scene.describe();
    for (int round = 0; round < 20; ++round)
    {
        const std::string key = "k" + std::to_string(round);
        const std::string first = scene.emit_too_large(key);
        const Ids line = {scene.emit_too_large(key), scene.emit(key)};
        ASSERT_TRUE(scene.reaches_status(first, "FAILED")) << scene.describe();
        scene.db().exec("begin");
        scene.db().exec("select outbox.discard($1, 'test')", first);
        const Ids beside = scene.emit_several("other", 1 + round % 3);
        scene.db().exec("commit");
        ASSERT_TRUE(scene.arrive(beside)) << scene.describe();
        ASSERT_TRUE(scene.reaches_status(line[0], "FAILED")) << scene.describe();
    }
    EXPECT_EQ(scene.db().value("select count(*) from outbox.deliveries d join outbox.events e on "
                               "e.id = d.event_id where d.attempts > 0 and e.event_type = 'good'"),
              "0");
}

// What an operator has given up is not tried again, whoever restarts when.
REAL_KAFKA_TEST(Refusal, ADiscardedEventIsNotPublishedAfterARestart)
{
    OwnCluster server;
    SmallTopic scene(server, {{"outbox.max_attempts", "1"}});
    const std::string large = scene.emit_too_large("k");
    ASSERT_TRUE(scene.reaches_status(large, "FAILED")) << scene.describe();
    scene.db().exec("select outbox.discard($1, 'test')", large);
    scene.raise_limit();
    for (const Shutdown how : {Shutdown::kFast, Shutdown::kImmediate})
    {
        server.restart(how);
        scene.connect_again();
        const Ids next = {scene.emit("k"), scene.emit("other")};
        ASSERT_TRUE(scene.arrive(next)) << scene.describe();
        EXPECT_EQ(scene.status(large), "DISCARDED");
    }
    scene.consumer().read_for(Milliseconds(300));
    for (const Record &record : scene.consumer().records())
        EXPECT_NE(record.header("id"), large) << "published although it was discarded";
}

// Lines of every length behind a culprit, some of them handed over before Kafka has refused it.
REAL_KAFKA_TEST(Refusal, NothingOvertakesARefusedEventWhicheverWayTheyMeet)
{
    constexpr int kRounds = 60;
    SmallTopic scene(cluster(), {{"outbox.max_attempts", "2"}}, 16);
    Ids heads;
    for (int round = 0; round < kRounds; ++round)
    {
        const std::string key = "k" + std::to_string(round);
        heads.push_back(scene.emit_too_large(key));
        scene.emit_several(key, 1 + 7 * round % 60);
    }
    for (const std::string &head : heads)
        ASSERT_TRUE(scene.reaches_status(head, "FAILED")) << scene.describe();
    scene.consumer().read_for(Milliseconds(300));
    for (int round = 0; round < kRounds; ++round)
    {
        const std::string key = "k" + std::to_string(round);
        EXPECT_EQ(scene.arrived(key).size(), 0U)
            << "a line of " << 1 + 7 * round % 60 << " behind " << heads[round] << ":\n"
            << scene.describe_key(key);
    }
    scene.db().exec("select outbox.discard(event_id, 'test') from outbox.dead_letters");
    const Report report = scene.check(heads);
    EXPECT_TRUE(report.complete_and_ordered()) << report.summary() << scene.describe();
    EXPECT_TRUE(wait_until(std::chrono::seconds(10), [&] { return scene.deliveries() == kRounds; }))
        << scene.describe();
}

// A hundred events fit into what librdkafka sends at once, but not into what the topic takes.
REAL_KAFKA_TEST(Refusal, NoEventIsBlamedWhenOnlyTheBatchIsTooLarge)
{
    SmallTopic scene(cluster(), {{"outbox.max_attempts", "1"}});
    const std::string head = scene.emit_too_large("k");
    ASSERT_TRUE(scene.reaches_status(head, "FAILED")) << scene.describe();
    scene.emit_several("k", 5000);
    scene.db().exec("select outbox.emit($1, 'k' || i % 40, 'good', '{}') from "
                    "generate_series(1, 5000) i",
                    scene.database().type());
    ASSERT_TRUE(
        wait_until(std::chrono::seconds(20), [&] { return scene.deliveries("WAITING") == 5000; }))
        << scene.describe();
    scene.db().exec("select outbox.discard($1, 'test')", head);
    scene.emit_several("other", 1000);
    const Report report = scene.check({head});
    EXPECT_TRUE(report.exact()) << report.summary() << scene.describe();
    EXPECT_TRUE(wait_until(std::chrono::seconds(10), [&] { return scene.deliveries() == 1; }))
        << scene.describe();
}

// The time of a record is nobody's fault: what is sent again has the time of its sending.
REAL_KAFKA_TEST(Refusal, ATopicThatTakesNoOldRecordsGetsThemWithTheTimeOfTheNextAttempt)
{
    TestDatabase database(cluster(), TestDatabase::Extension::kNotInstalled);
    kafka().create_topic(database.topic(), 1, {{"message.timestamp.before.max.ms", "60000"}});
    Db db = database.connect();
    db.exec("alter database " + database.name() + " set outbox.backoff_initial = '50ms'");
    db.exec("alter database " + database.name() + " set outbox.max_attempts = 1");
    db.exec("create extension outbox");
    Consumer consumer(kafka().bootstrap(), {database.topic()});
    for (const char *age : {"0", "30 minutes", "0", "59 minutes", "2 hours", "0"})
        db.exec("insert into outbox.events (aggregate_type, aggregate_id, event_type, created_at) "
                "values ($1, 'k', 'e', now() - $2::interval)",
                database.type(), age);
    const Report report = check_delivery(db, consumer);
    EXPECT_TRUE(report.complete_and_ordered()) << report.summary();
    EXPECT_EQ(db.value("select refused > 0 and failed = 0 from outbox.stats_total"), "t");
    EXPECT_EQ(db.value("select outbox.drain('20 s')"), "t");
}
