// Replays: what was published goes out once more, behind everything new, and disturbs nothing.
#include "replay_scene.h"

using namespace outbox::test;

TEST(Replay, TheSameEventsGoOutAgainInOrderOfTheirKeysWithTheSameBytesAndOneHeaderMore)
{
    ReplayScene scene(cluster());
    scene.db().exec("select outbox.emit($1, 'k1', 'e', '{\"b\": [1e3, \"\\u00e9\"], \"a\": null}', "
                    "'{\"traceparent\": \"00-1\", \"n\": 7}', schema_version => 3)",
                    scene.database().type());
    scene.db().exec("select outbox.emit_bytes($1, 'k1', 'e', '\\x00ff')", scene.database().type());
    scene.db().exec("insert into outbox.events (aggregate_type, aggregate_id, event_type) values "
                    "($1, 'k2', 'e')",
                    scene.database().type());
    scene.emit(600);
    const auto emitted = scene.db().column("select id from outbox.events order by seq");
    const std::string total = scene.db().value("select published_total from outbox.relay_status");
    ASSERT_TRUE(scene.consumer().read_count(emitted.size(), kLong));
    std::map<std::string, Record> first;
    for (const Record &record : scene.consumer().records())
        first[record.header("id").value()] = record;

    const std::string replay = scene.replay("rate_per_second => 10000");
    ASSERT_TRUE(scene.reaches(replay, "DONE")) << scene.describe(replay);
    const Records again = scene.replayed(replay, emitted.size());
    ASSERT_EQ(again.size(), emitted.size());
    EXPECT_EQ(set_of(ids_of(again)), set_of(emitted));
    EXPECT_TRUE(in_order_of_keys(again, emitted));
    for (const Record &record : again)
    {
        const Record &before = first.at(record.header("id").value());
        EXPECT_EQ(record.key, before.key);
        EXPECT_EQ(record.value, before.value);
        EXPECT_EQ(record.partition, before.partition);
        auto headers = before.headers;
        headers.insert(headers.begin(), {"replay_id", replay});
        EXPECT_EQ(record.headers, headers);
    }
    EXPECT_EQ(scene.number(replay, "published"), static_cast<int>(emitted.size()));
    EXPECT_EQ(scene.column(replay, "percent"), "100.0");
    EXPECT_EQ(scene.db().value("select count(*) from outbox.replay_events"), "0");
    EXPECT_EQ(scene.db().value("select published_total from outbox.relay_status"), total);
    EXPECT_EQ(scene.consumer().records().size(), 2 * emitted.size());
}

TEST(Replay, GoesNoFasterThanItsRateNoFurtherThanItsCapAndOnlyWhereItIsTold)
{
    ReplayScene scene(cluster());
    const auto emitted = scene.emit(100);
    const std::string topic = scene.database().topic() + ".again";
    kafka().create_topic(topic);
    const auto start = Clock::now();
    const std::string replay =
        scene.replay("max_count => 60, rate_per_second => 40, topic => '" + topic + "'");
    ASSERT_TRUE(scene.reaches(replay, "DONE")) << scene.describe(replay);
    // Four may go at once.
    EXPECT_GE(since(start).count(), 1000 * (60 - 4) / 40);
    EXPECT_EQ(scene.column(replay, "matching"), "");
    Consumer elsewhere(kafka().bootstrap(), {topic});
    ASSERT_TRUE(elsewhere.read_count(60, kLong));
    elsewhere.read_for(Milliseconds(200));
    EXPECT_EQ(set_of(ids_of(elsewhere.records())),
              std::set<std::string>(emitted.begin(), emitted.begin() + 60));
    ASSERT_TRUE(scene.consumer().read_count(100, kLong));
    EXPECT_EQ(scene.replayed(replay, 0).size(), 0U);
}

TEST(Replay, KillsInTheMiddleRepeatOnlyWhatWasNotWrittenDown)
{
    constexpr int kEvents = 1600;
    constexpr int kBeforeFirst = 1000;
    constexpr int kBeforeSecond = 1300;
    OwnCluster server(Settings{{"fsync", "off"}});
    server.expect_kill();
    ReplayScene scene(server);
    const auto emitted = scene.emit(kEvents);
    const std::string replay = scene.replay("max_count => 100000, rate_per_second => 500");
    ASSERT_TRUE(scene.publishes(replay, kBeforeFirst));
    scene.database().kill_relay();
    scene.connect_again();
    ASSERT_TRUE(scene.publishes(replay, kBeforeSecond)) << scene.describe(replay);
    server.kill9();
    server.start();
    scene.connect_again();
    ASSERT_TRUE(scene.reaches(replay, "DONE")) << scene.describe(replay);
    EXPECT_EQ(scene.number(replay, "published"), kEvents);
    const Records again = scene.replayed(replay, kEvents);
    EXPECT_EQ(set_of(ids_of(again)), set_of(emitted));
    EXPECT_TRUE(in_order_of_keys(again, emitted));
    // What is acknowledged is written down every 0.2 s, and on disk some tenths later.
    std::printf("%zu events went out twice\n", again.size() - emitted.size());
    EXPECT_LT(again.size() - emitted.size(), static_cast<size_t>(kBeforeFirst));
}

TEST(Replay, NewEventsGoBeforeThoseOfAReplayThatWasAskedForEarlier)
{
    constexpr int kOld = 200;
    constexpr int kNew = 20000;
    ReplayScene scene(cluster());
    scene.emit(kOld);
    scene.db().exec("select outbox.pause()");
    ASSERT_TRUE(scene.database().reaches_state("paused"));
    const std::string replay = scene.replay("rate_per_second => 10000");
    scene.emit_only(kNew);
    EXPECT_EQ(scene.column(replay, "state"), "QUEUED");
    scene.db().exec("select outbox.resume()");
    ASSERT_TRUE(scene.reaches(replay, "DONE")) << scene.describe(replay);
    ASSERT_TRUE(scene.consumer().read_count(2 * kOld + kNew, kLong));
    // It begins when so few of the new ones are not acknowledged yet.
    constexpr long kMayFollow = 1000;
    std::set<int> begun;
    long followed = 0;
    for (const Record &record : scene.consumer().records())
        if (record.header("replay_id"))
            begun.insert(record.partition);
        else
            followed += static_cast<long>(begun.count(record.partition));
    EXPECT_LE(followed, kMayFollow);
    std::printf("%ld of %d new events followed an old one\n", followed, kNew);
}

TEST(Replay, NewEventsAreNotHeldUpByAReplayThatRuns)
{
    ReplayScene scene(cluster());
    scene.emit(2000);
    const std::string replay = scene.replay("max_count => 2000, rate_per_second => 1500");
    ASSERT_TRUE(scene.reaches(replay, "RUNNING"));
    std::vector<long> took;
    while (scene.column(replay, "state") == "RUNNING")
    {
        const auto start = Clock::now();
        const std::string id =
            scene.db().value("select outbox.emit($1, 'k1', 'e', '{}')", scene.database().type());
        ASSERT_EQ(scene.db().value("select outbox.wait_published($1, '20 s')", id), "t");
        took.push_back(since(start).count());
    }
    EXPECT_EQ(scene.column(replay, "state"), "DONE");
    ASSERT_GE(took.size(), 5U);
    std::sort(took.begin(), took.end());
    std::printf("%zu events during the replay: median %ld ms, longest %ld ms\n", took.size(),
                took[took.size() / 2], took.back());
    EXPECT_LT(took[took.size() / 2], 300);
}

TEST(Replay, ACancelledOneEndsAndTheNextBegins)
{
    ReplayScene scene(cluster());
    const auto emitted = scene.emit(1000);
    const std::string replay = scene.replay("rate_per_second => 100");
    const std::string next = scene.replay("max_count => 7");
    ASSERT_TRUE(scene.publishes(replay, 10)) << scene.describe(replay);
    EXPECT_EQ(scene.column(next, "state"), "QUEUED");

    // Not before it is committed.
    Db person = scene.database().connect();
    person.exec("begin");
    EXPECT_EQ(person.value("select outbox.cancel_replay($1)", replay), "t");
    EXPECT_EQ(scene.column(replay, "state"), "RUNNING");
    const std::string id =
        scene.db().value("select outbox.emit($1, 'k1', 'e', '{}')", scene.database().type());
    EXPECT_EQ(scene.db().value("select outbox.wait_published($1, '20 s')", id), "t");
    person.exec("commit");

    ASSERT_TRUE(scene.reaches(next, "DONE")) << scene.describe(next);
    EXPECT_EQ(scene.column(replay, "state"), "CANCELLED");
    EXPECT_LT(scene.replayed(replay, 10).size(), 700U);
    EXPECT_EQ(ids_of(scene.replayed(next, 7)).size(), 7U);
    EXPECT_EQ(scene.db().value("select count(*) from outbox.replay_events"), "0");

    // A transaction that is rolled back has asked for nothing.
    person.exec("begin");
    person.exec("select outbox.replay($1, dry_run => false)", scene.database().type());
    person.exec("rollback");
    EXPECT_EQ(scene.db().value("select count(*) from outbox.replays where state = 'QUEUED'"), "0");
}

TEST(Replay, APauseHoldsItAndAnOutageOfKafkaOnlyDelaysIt)
{
    ReplayScene scene(cluster());
    const auto emitted = scene.emit(400);
    ASSERT_TRUE(scene.consumer().read_count(400, kLong));
    const std::string replay = scene.replay("rate_per_second => 200");
    ASSERT_TRUE(scene.publishes(replay, 20));
    scene.db().exec("select outbox.pause()");
    ASSERT_TRUE(scene.database().reaches_state("paused"));
    scene.consumer().read_for(Milliseconds(300)); // what was on its way
    const size_t before = scene.consumer().records().size();
    scene.consumer().read_for(Milliseconds(300));
    EXPECT_EQ(scene.consumer().records().size(), before);
    EXPECT_EQ(scene.column(replay, "state"), "RUNNING");
    // Apache Kafka takes ten seconds to come back; the relay's part is the same.
    const bool outage = kafka().kind() == "embedded";
    if (outage)
        kafka().stop();
    scene.db().exec("select outbox.resume()");
    if (outage)
    {
        EXPECT_TRUE(wait_until(kLong, [&] { return scene.column(replay, "last_error") != ""; }))
            << scene.describe(replay);
        kafka().start();
    }
    ASSERT_TRUE(scene.reaches(replay, "DONE", std::chrono::seconds(60))) << scene.describe(replay);
    const Records again = scene.replayed(replay, 400);
    EXPECT_EQ(set_of(ids_of(again)), set_of(emitted));
    EXPECT_TRUE(in_order_of_keys(again, emitted));
    EXPECT_EQ(scene.number(replay, "refused"), 0);
}
