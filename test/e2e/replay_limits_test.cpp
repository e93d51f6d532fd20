// What may come in the way of a replay: retention, copies of the database, refusals.
#include "real_kafka_test.h"
#include "replay_scene.h"

using namespace outbox::test;

TEST(Replay, KeepsItsEventsFromBeingRemovedAndSaysSo)
{
    OwnCluster server({{"outbox.retention", "1s"}, {"fsync", "off"}});
    ReplayScene scene(server);
    const auto emitted = scene.emit(20);
    const std::string replay = scene.replay("rate_per_second => 1");
    const auto held_back = [&]
    {
        return scene.db().value("select count(*) from outbox.maintenance_status where task = "
                                "'truncation' and held_back_by = 'events of replay ' || $1",
                                replay);
    };
    ASSERT_TRUE(wait_until(kLong,
                           [&]
                           {
                               scene.emit_only(1); // an empty partition is not left
                               return held_back() == "1";
                           }));
    const auto kept = [&]
    {
        return scene.db().value("select count(*) from outbox.events where id = any ($1::uuid[])",
                                "{" + emitted.front() + "," + emitted.back() + "}");
    };
    EXPECT_EQ(kept(), "2");
    EXPECT_EQ(scene.column(replay, "state"), "RUNNING");
    EXPECT_EQ(scene.number(replay, "missing"), 0);
    scene.db().exec("select outbox.cancel_replay($1)", replay);
    EXPECT_TRUE(wait_until(kLong, [&] { return kept() == "0"; }));

    // What somebody takes away by hand is counted.
    scene.emit(3);
    scene.db().exec("select outbox.pause()");
    const std::string emptied = scene.replay("max_count => 1000");
    const int total = scene.number(emptied, "total");
    scene.db().exec("truncate outbox.events");
    scene.db().exec("select outbox.resume()");
    ASSERT_TRUE(scene.reaches(emptied, "DONE")) << scene.describe(emptied);
    EXPECT_EQ(scene.number(emptied, "missing"), total);
    EXPECT_GE(total, 3);
}

TEST(Replay, ACopyOfTheDatabaseDoesNotContinueIt)
{
    ReplayScene scene(cluster());
    scene.emit(10);
    scene.db().exec("select outbox.pause()");
    const std::string replay = scene.replay("max_count => 10");
    const std::string copy = unique_name("copy_");
    scene.leave(); // as a template it may have no sessions
    Db(cluster(), "postgres")
        .exec("create database " + copy + " template " + scene.database().name());
    Db other(cluster(), copy);
    other.exec("select outbox.resume()");
    EXPECT_TRUE(wait_until(kLong,
                           [&]
                           {
                               return other.value("select state from outbox.replays where "
                                                  "replay_id = $1 and last_error like "
                                                  "'%copy of%' or state <> 'FAILED'",
                                                  replay) == "FAILED";
                           }));
    EXPECT_EQ(other.value("select count(*) from outbox.replay_events"), "0");
    scene.connect_again();
    scene.db().exec("select outbox.resume()");
    ASSERT_TRUE(scene.reaches(replay, "DONE")) << scene.describe(replay);
    EXPECT_EQ(scene.replayed(replay, 10).size(), 10U);
    other = Db(cluster(), "postgres");
    other.exec("drop database " + copy);
}

// The limit of a topic is looked at by Kafka alone.
REAL_KAFKA_TEST(Replay, EventsThatKafkaRefusesAreCountedAndNewOnesDoNotNotice)
{
    ReplayScene scene(cluster());
    const std::string topic = scene.database().topic() + ".small";
    kafka().create_topic(topic, 1, {{"max.message.bytes", "2000"}});
    // Five of thirty are too large for the other topic.
    scene.db().exec("select outbox.emit($1, 'k' || n % 3, 'e', case when n % 6 = 2 then "
                    "to_jsonb(repeat('x', 5000)) else to_jsonb(n) end) "
                    "from generate_series(1, 30) n",
                    scene.database().type());
    const auto emitted = scene.db().column("select id from outbox.events order by seq");
    EXPECT_EQ(scene.db().value("select outbox.drain('30 s')"), "t");
    const std::string replay = scene.replay("rate_per_second => 100, topic => '" + topic + "'");
    while (scene.column(replay, "ended_at").empty())
    {
        const auto start = Clock::now();
        const std::string id =
            scene.db().value("select outbox.emit($1, 'k2', 'e', '{}')", scene.database().type());
        ASSERT_EQ(scene.db().value("select outbox.wait_published($1, '20 s')", id), "t");
        EXPECT_LT(since(start).count(), 2000);
    }
    EXPECT_EQ(scene.column(replay, "state"), "DONE");
    EXPECT_EQ(scene.number(replay, "published"), 25) << scene.describe(replay);
    EXPECT_EQ(scene.number(replay, "refused"), 5) << scene.describe(replay);
    EXPECT_NE(scene.column(replay, "last_error").find("MSG_SIZE_TOO_LARGE"), std::string::npos);
    EXPECT_EQ(scene.db().value("select count(*) from outbox.deliveries"), "0");
    EXPECT_EQ(scene.db().value("select consecutive_failures from outbox.relay_status"), "0");
    Consumer elsewhere(kafka().bootstrap(), {topic});
    ASSERT_TRUE(elsewhere.read_count(25, kLong));
    elsewhere.read_for(Milliseconds(200));
    EXPECT_EQ(elsewhere.records().size(), 25U);
    EXPECT_TRUE(in_order_of_keys(elsewhere.records(), emitted));
}
