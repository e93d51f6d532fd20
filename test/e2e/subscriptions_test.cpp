// Several readers of the events of one database, each by a relay of its own.
#include "subscription_scene.h"

using namespace outbox::test;

// Transactions are open around the creation: what they emit is sent when they commit after it.
TEST(Subscriptions, OneBeginsWithWhatCommitsAfterItsCreationOrWithAllThatIsKept)
{
    Scene scene(cluster());
    const std::string before = scene.emit();
    Db open = scene.database.connect();
    open.exec("begin");
    const std::string around = Scene::emit(open, scene.database.type());
    Db lost = scene.database.connect();
    lost.exec("begin");
    (void) Scene::emit(lost, scene.database.type());

    scene.db.exec("begin; savepoint s");
    scene.create("fresh");
    scene.db.exec("release s");
    const std::string within = scene.emit();
    scene.create("whole", ", start => 'retained'");
    scene.db.exec("commit");
    const std::string after = scene.emit();
    open.exec("commit");
    lost.exec("rollback");
    EXPECT_EQ(scene.db.value("select outbox.drain('20 s')"), "t");

    const Ids fresh = scene.sent("fresh", 3);
    EXPECT_EQ(std::set<std::string>(fresh.begin(), fresh.end()),
              (std::set<std::string>{around, within, after}));
    EXPECT_EQ(fresh.size(), 3U);
    const Ids whole = scene.sent("whole", 4);
    EXPECT_EQ(std::set<std::string>(whole.begin(), whole.end()),
              (std::set<std::string>{before, around, within, after}));
    EXPECT_EQ(whole.size(), 4U);
    EXPECT_EQ(scene.sent("", 4).size(), 4U);
    EXPECT_TRUE(wait_until(kLimit,
                           [&]
                           {
                               return scene.db.column("select published_total from "
                                                      "outbox.subscription_status order by name") ==
                                      std::vector<std::string>{"3", "4"};
                           }))
        << scene.describe();
}

TEST(Subscriptions, ACreationThatIsRolledBackLeavesNothing)
{
    Scene scene(cluster());
    scene.db.exec("begin");
    scene.create("never");
    scene.db.exec("rollback");
    scene.create("never");
    scene.db.exec("begin; select outbox.drop_subscription('never'); rollback");
    const std::string id = scene.emit();
    EXPECT_EQ(scene.sent("never", 1), Ids{id});
    EXPECT_EQ(scene.db.value("select count(*) from outbox.relay_position"), "2");
}

TEST(Subscriptions, AFilterTakesTypesAndWhatTheyBeginWith)
{
    Scene scene(cluster());
    scene.create("filtered", ", event_types => '{paid,order.*}'");
    scene.create("nothing", ", aggregate_types => '{other}'");
    Ids expected;
    for (const char *event : {"made", "paid", "order", "order.", "order.sent", "paid.not"})
    {
        const std::string id = scene.emit(event);
        if (std::string(event) == "paid" || std::string(event).substr(0, 6) == "order.")
            expected.push_back(id);
    }
    EXPECT_EQ(scene.sent("filtered", 3), expected);
    EXPECT_EQ(scene.sent("", 6).size(), 6U);
    EXPECT_TRUE(scene.becomes("nothing", "running"));
    // What it does not take it has passed nevertheless.
    EXPECT_TRUE(wait_until(
        kLimit,
        [&]
        {
            return number(scene.db, "select count(*) from outbox.events e, outbox.relay_position p "
                                    "where not outbox.visible_in(e.xid, p.from_snapshot)") == 0;
        }))
        << scene.describe();
}

// In order for each key, whatever happens to the others, and across a restart of the server.
TEST(Subscriptions, WhatOneSuffersDoesNotTouchTheOthers)
{
    OwnCluster server;
    Scene scene(server);
    scene.create("well");
    scene.create("dead", "", "127.0.0.1:1");
    scene.create("paused");
    ASSERT_TRUE(scene.becomes("well", "running")) << scene.describe();
    EXPECT_EQ(scene.db.value("select outbox.pause('test', 'paused')"), "t");
    ASSERT_TRUE(scene.becomes("paused", "paused")) << scene.describe();
    std::map<std::string, Ids> emitted;
    for (int i = 0; i < 200; ++i)
    {
        const std::string key = std::to_string(i % 7);
        emitted[key].push_back(scene.emit("made", key));
    }
    EXPECT_EQ(scene.db.value("select outbox.drain('20 s', 'default')"), "t");
    EXPECT_EQ(scene.db.value("select outbox.drain('20 s', 'well')"), "t");
    EXPECT_EQ(scene.db.value("select outbox.drain('100 ms')"), "f"); // of all
    EXPECT_EQ(scene.sent("well", 200).size(), 200U);
    EXPECT_EQ(scene.db.value("select published_total from outbox.subscription_status "
                             "where name = 'paused'"),
              "0");
    EXPECT_EQ(scene.db.value("select outbox.resume('paused')"), "t");
    server.restart();
    scene.db = scene.database.connect();
    // What was not acknowledged before the restart is repeated, and counts where it came first.
    Consumer consumer(kafka().bootstrap(), {scene.topic("paused")});
    std::map<std::string, Ids> arrived;
    const auto all_arrived = [&]
    {
        consumer.read_for(Milliseconds(100));
        arrived.clear();
        std::set<std::string> known;
        for (const Record &record : consumer.records())
            if (const std::string id = record.header("id").value_or(""); known.insert(id).second)
                arrived[*record.key].push_back(id);
        return known.size() == 200;
    };
    EXPECT_TRUE(wait_until(kLimit, all_arrived)) << scene.describe();
    EXPECT_EQ(arrived, emitted);
    const std::string last = scene.emit();
    EXPECT_TRUE(wait_until(kLimit,
                           [&]
                           {
                               const Ids well = scene.sent("well", 201);
                               return std::count(well.begin(), well.end(), last) == 1;
                           }));
}

TEST(Subscriptions, OneThatIsDroppedEndsAndAnotherOfTheNameBeginsAnew)
{
    Scene scene(cluster());
    scene.create("same");
    const std::string first = scene.emit();
    EXPECT_EQ(scene.sent("same", 1), Ids{first});
    scene.db.exec("select outbox.drop_subscription('same')");
    EXPECT_EQ(scene.db.value("select count(*) from outbox.subscription_status"), "0");
    EXPECT_EQ(scene.db.value("select count(*) from outbox.relay_position"), "1");
    const std::string between = scene.emit();
    EXPECT_EQ(scene.db.value("select outbox.wait_published($1, '20 s')", between), "t");
    scene.create("same");
    const std::string second = scene.emit();
    EXPECT_EQ(scene.sent("same", 2), (Ids{first, second}));
    scene.db.exec("drop extension outbox");
}

TEST(Subscriptions, OtherOptionsHoldFromTheirCommitOnAndTheRelayContinues)
{
    Scene scene(cluster());
    scene.create("changed");
    const std::string first = scene.emit();
    EXPECT_EQ(scene.sent("changed", 1), Ids{first});
    const std::string before = pid_of(scene, "changed");
    kafka().create_topic(scene.topic("moved"));
    scene.db.exec("select outbox.alter_subscription('changed', jsonb_build_object("
                  "'bootstrap_servers', $1::text, 'topic_template', 'moved.{aggregate_type}'))",
                  kafka().bootstrap());
    ASSERT_TRUE(wait_until(kLimit,
                           [&]
                           {
                               const std::string now = pid_of(scene, "changed");
                               return now != "0" && now != before;
                           }))
        << scene.describe();
    const std::string second = scene.emit();
    EXPECT_EQ(scene.sent("moved", 1), Ids{second});
    EXPECT_EQ(scene.sent("changed", 1), Ids{first});
}

// With a setting of the superuser's role those of the database are applied at each reload.
TEST(Subscriptions, ItsOptionsHoldAfterAReloadOfOtherSettings)
{
    OwnCluster server;
    Scene scene(server);
    scene.db.exec("alter role postgres set outbox.max_attempts = 3");
    scene.db.exec("alter database " + scene.database.name() +
                  " set outbox.topic_template = 'elsewhere.{aggregate_type}'");
    kafka().create_topic(scene.topic("elsewhere"));
    server.restart(); // the relay of `default` may have started before it was set
    scene.db = scene.database.connect();
    scene.create("own");
    const std::string first = scene.emit();
    EXPECT_EQ(scene.sent("own", 1), Ids{first});
    EXPECT_EQ(scene.db.value("select pg_reload_conf()"), "t");
    EXPECT_TRUE(wait_until(kLimit, [&] { return pid_of(scene, "own") != "0"; }));
    const std::string second = scene.emit();
    EXPECT_EQ(scene.sent("own", 2), (Ids{first, second}));
    EXPECT_EQ(scene.sent("elsewhere", 2), (Ids{first, second}));
}

// The ring keeps what one of them has not passed, and says whose events it keeps.
TEST(Subscriptions, ThePartitionsStayUntilAllHavePassedThem)
{
    OwnCluster server(Settings{{"outbox.retention", "1s"}});
    Scene scene(server);
    scene.create("slow");
    ASSERT_TRUE(scene.becomes("slow", "running")) << scene.describe();
    scene.db.exec("select outbox.pause('test', 'slow')");
    ASSERT_TRUE(scene.becomes("slow", "paused"));
    Ids expected;
    const auto emit_until = [&](auto condition)
    {
        return wait_until(kLimit,
                          [&]
                          {
                              expected.push_back(scene.emit());
                              return condition();
                          });
    };
    EXPECT_TRUE(emit_until(
        [&]
        {
            return number(scene.db, "select count(*) from outbox.maintenance_status where "
                                    "held_back_by = 'events that subscription slow has not "
                                    "passed'") > 0;
        }))
        << scene.db.value("select string_agg(s::text, E'\\n') from outbox.maintenance_status s");
    scene.db.exec("select outbox.resume('slow')");
    EXPECT_EQ(scene.sent("slow", expected.size()), expected);
    EXPECT_TRUE(emit_until(
        [&]
        {
            return number(scene.db, "select sum(done_total) from outbox.maintenance_status "
                                    "where task = 'truncation'") > 0;
        }));
}

// Neither a dump nor a copy of the database sends to where the original does.
TEST(Subscriptions, CopiesAndDumpsHaveNone)
{
    OwnCluster server;
    Scene scene(server);
    scene.create("original");
    const std::string id = scene.emit();
    EXPECT_EQ(scene.sent("original", 1), Ids{id});
    const std::string copy = scene.database.name() + "_copy";
    scene.db = Db(server, "postgres"); // nobody is in the template
    Db admin(server, "postgres");
    admin.exec("create database " + copy + " template " + scene.database.name());
    Db db(server, copy);
    EXPECT_TRUE(wait_until(
        kLimit, [&] { return db.value("select state from outbox.relay_status") == "running"; }));
    EXPECT_EQ(db.value("select count(*) from outbox.subscriptions"), "0");
    EXPECT_EQ(db.value("select count(distinct subscription) from outbox.relay_position"), "1");
    (void) Scene::emit(db, scene.database.type());
    EXPECT_EQ(db.value("select outbox.drain('20 s')"), "t");
    EXPECT_EQ(scene.sent("original", 1), Ids{id});
    db = Db(server, "postgres");
    admin.exec("drop database " + copy);
}
