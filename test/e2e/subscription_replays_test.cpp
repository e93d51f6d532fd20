// Replays and statistics of subscriptions: each is its relay's own.
#include "subscription_scene.h"

using namespace outbox::test;

namespace
{

std::string
replay(Scene &scene, const std::string &name, const std::string &more = "")
{
    return scene.db.value("select outbox.replay($1, subscription => $2, dry_run => false" + more +
                              ")",
                          scene.database.type(), name);
}

bool
reaches(Scene &scene, const std::string &id, const std::string &state)
{
    return wait_until(kLimit,
                      [&] {
                          return scene.db.value(
                                     "select state from outbox.replays where replay_id = $1", id) ==
                                 state;
                      });
}

std::string
replay_row(Scene &scene, const std::string &id)
{
    return scene.db.value("select r::text from outbox.replays r where replay_id = $1", id);
}

// The ids of the records of a replay in a subscription's topic, once there are so many.
Ids
replayed(Scene &scene, const std::string &name, const std::string &id, size_t count)
{
    Consumer consumer(kafka().bootstrap(),
                      {name.empty() ? scene.database.topic() : scene.topic(name)});
    Ids ids;
    const auto read = [&](const std::vector<Record> &records)
    {
        ids.clear();
        for (const Record &record : records)
            if (record.header("replay_id") == id)
                ids.push_back(record.header("id").value_or(""));
        return ids.size() >= count;
    };
    consumer.read_until(kLimit, read);
    consumer.read_for(Milliseconds(300));
    (void) read(consumer.records());
    return ids;
}

int
published(Scene &scene, const std::string &name)
{
    return std::stoi(scene.db.value("select coalesce(sum(published), -1) from outbox.stats_total "
                                    "where subscription = $1",
                                    name));
}

} // namespace

TEST(SubscriptionReplays, GoWhereTheSubscriptionSendsAndNowhereElse)
{
    Scene scene(cluster());
    Ids emitted;
    for (int i = 0; i < 5; ++i)
        emitted.push_back(scene.emit("before"));
    EXPECT_EQ(scene.db.value("select outbox.drain('20 s')"), "t");
    scene.create("copy", ", event_types => '{before,taken}'");
    emitted.push_back(scene.emit("taken"));
    (void) scene.emit("left_out");
    EXPECT_EQ(scene.sent("copy", 1), Ids{emitted.back()});
    ASSERT_TRUE(wait_until(kLimit,
                           [&]
                           {
                               return scene.db.value("select published_total from "
                                                     "outbox.subscription_status") == "1";
                           }));

    const std::string id = replay(scene, "copy");
    EXPECT_TRUE(reaches(scene, id, "DONE")) << replay_row(scene, id) << scene.describe();
    EXPECT_EQ(replayed(scene, "copy", id, 6), emitted);
    EXPECT_EQ(replayed(scene, "", id, 0), Ids{});
    // What default has for itself does not go to the subscription either.
    const std::string own =
        scene.db.value("select outbox.replay($1, dry_run => false)", scene.database.type());
    EXPECT_TRUE(reaches(scene, own, "DONE")) << replay_row(scene, own);
    EXPECT_EQ(replayed(scene, "", own, 7).size(), 7U);
    EXPECT_EQ(replayed(scene, "copy", own, 0), Ids{});
    EXPECT_EQ(scene.db.value("select published_total from outbox.subscription_status"), "1");
}

// One for each at a time; what one's Kafka does holds no other's up.
TEST(SubscriptionReplays, OfTwoSubscriptionsRunAtOnceAndOneOfEach)
{
    OwnCluster server;
    Scene scene(server);
    for (int i = 0; i < 40; ++i)
        (void) scene.emit();
    EXPECT_EQ(scene.db.value("select outbox.drain('20 s')"), "t");
    scene.create("first");
    scene.create("second");
    scene.create("dead", "", "127.0.0.1:1");
    ASSERT_TRUE(scene.becomes("first", "running")) << scene.describe();
    ASSERT_TRUE(scene.becomes("second", "running")) << scene.describe();
    const std::string dead = replay(scene, "dead");
    const std::string slow = replay(scene, "first", ", rate_per_second => 1");
    const std::string behind = replay(scene, "first");
    ASSERT_TRUE(reaches(scene, slow, "RUNNING")) << replay_row(scene, slow);
    const std::string other = replay(scene, "second");
    EXPECT_TRUE(reaches(scene, other, "DONE")) << replay_row(scene, other);
    EXPECT_EQ(replayed(scene, "second", other, 40).size(), 40U);
    EXPECT_EQ(scene.db.value("select state from outbox.replays where replay_id = $1", behind),
              "QUEUED");
    EXPECT_EQ(scene.db.value("select outbox.cancel_replay($1)", slow), "t");
    // Also across a crash.
    EXPECT_TRUE(wait_until(kLimit,
                           [&]
                           {
                               return scene.db.value("select state = 'DONE' or published > 0 from "
                                                     "outbox.replays where replay_id = $1",
                                                     behind) == "t";
                           }))
        << replay_row(scene, behind);
    scene.server.restart();
    scene.db = scene.database.connect();
    EXPECT_TRUE(reaches(scene, behind, "DONE")) << replay_row(scene, behind);
    EXPECT_EQ(scene.db.value("select published from outbox.replays where replay_id = $1", behind),
              "40");
    EXPECT_EQ(scene.db.value("select published from outbox.replays where replay_id = $1", dead),
              "0");
    // Its list holds the ring, and goes with the subscription.
    scene.db.exec("select outbox.drop_subscription('dead')");
    EXPECT_EQ(scene.db.value("select count(*) from outbox.replay_events"), "0");
    EXPECT_EQ(scene.db.value("select count(*) from outbox.replays where subscription = 'dead'"),
              "0");
}

// Otherwise a list that nobody sends would hold events back for ever.
TEST(SubscriptionReplays, OneThatIsDetachedHasNone)
{
    OwnCluster server(Settings{{"outbox.retention", "2s"}});
    Scene scene(server);
    (void) scene.emit();
    EXPECT_EQ(scene.db.value("select outbox.drain('20 s')"), "t");
    scene.create("dead", " || '{\"max_lag\": \"1s\", \"on_lag\": \"detach\"}'", "127.0.0.1:1");
    const std::string id = replay(scene, "dead");
    EXPECT_EQ(scene.db.value("select count(*) from outbox.replay_events"), "1");
    ASSERT_TRUE(wait_until(std::chrono::seconds(60),
                           [&]
                           {
                               (void) scene.emit();
                               return scene.of("state", "dead") == "detached";
                           }))
        << scene.describe();
    EXPECT_EQ(scene.db.value("select state || ': ' || last_error from outbox.replays "
                             "where replay_id = $1",
                             id),
              "FAILED: its subscription was detached");
    EXPECT_EQ(scene.db.value("select count(*) from outbox.replay_events"), "0");
    try
    {
        (void) replay(scene, "dead");
        FAIL() << "there is nobody who would send it";
    }
    catch (const SqlError &error)
    {
        EXPECT_EQ(error.sqlstate(), "55000") << error.what();
    }
}

TEST(SubscriptionStats, AreCountedForEachAndSetToZeroForOneOrAll)
{
    Scene scene(cluster());
    scene.create("all");
    scene.create("some", ", event_types => '{taken}'");
    for (int i = 0; i < 10; ++i)
        (void) scene.emit(i < 4 ? "taken" : "made");
    EXPECT_EQ(scene.db.value("select outbox.drain('20 s')"), "t");
    const auto become = [&](int of_default, int of_all, int of_some)
    {
        return wait_until(kLimit,
                          [&]
                          {
                              return published(scene, "default") == of_default &&
                                     published(scene, "all") == of_all &&
                                     published(scene, "some") == of_some;
                          });
    };
    const auto describe = [&]
    { return scene.db.value("select string_agg(s::text, E'\\n') from outbox.stats_total s"); };
    EXPECT_TRUE(become(10, 10, 4)) << describe();
    EXPECT_EQ(scene.db.column("select topic || ' ' || published || ' ' || subscription from "
                              "outbox.stats order by subscription"),
              (std::vector<std::string>{scene.topic("all") + " 10 all",
                                        scene.database.topic() + " 10 default",
                                        scene.topic("some") + " 4 some"}));
    EXPECT_EQ(scene.db.column("select subscription || ' ' || events from outbox.stats_histogram "
                              "where measure = 'sent_to_acked' and le_seconds = 'infinity' "
                              "order by subscription"),
              (std::vector<std::string>{"all 10", "default 10", "some 4"}));
    scene.db.exec("select outbox.stats_reset('some')");
    EXPECT_TRUE(become(10, 10, 0)) << describe();
    (void) scene.emit("taken");
    EXPECT_TRUE(become(11, 11, 1)) << describe();
    scene.db.exec("select outbox.stats_reset()");
    EXPECT_TRUE(become(0, 0, 0)) << describe();

    // Another one of the name begins with nothing, and one that was dropped is not shown.
    (void) scene.emit("taken");
    EXPECT_TRUE(become(1, 1, 1)) << describe();
    scene.db.exec("select outbox.drop_subscription('all'), outbox.drop_subscription('some')");
    scene.create("some");
    EXPECT_TRUE(become(1, -1, 0)) << describe();
}
