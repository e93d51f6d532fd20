// How long a subscription may hold events back, and what becomes of one that was let go of.
#include "subscription_scene.h"

using namespace outbox::test;

namespace
{

constexpr const char *kDead = "127.0.0.1:1";
constexpr const char *kDetaches = " || '{\"max_lag\": \"2s\", \"on_lag\": \"detach\"}'";

// A server whose ring turns every third of a second.
struct ShortRing
{
    OwnCluster server = OwnCluster(Settings{{"outbox.retention", "2s"}});
    Scene scene = Scene(server);
    Ids emitted;

    template <typename F> bool emit_until(F condition)
    {
        return wait_until(std::chrono::seconds(60),
                          [&]
                          {
                              emitted.push_back(scene.emit());
                              return condition();
                          });
    }

    bool becomes_detached(const std::string &name)
    {
        return emit_until([&] { return scene.of("state", name) == "detached"; });
    }

    bool misses_some(const std::string &name)
    {
        return emit_until([&] { return std::stol(scene.of("missed_events", name)) > 0; });
    }

    std::string describe()
    {
        return scene.describe() + "\n" +
               scene.db.value(
                   "select string_agg(s::text, E'\\n') from outbox.maintenance_status s");
    }
};

} // namespace

// Its relay cannot send anything, and the ring goes on without it.
TEST(SubscriptionLag, OneThatLagsTooFarIsLetGoOfAndContinuesWithWhatIsKept)
{
    ShortRing ring;
    Scene &scene = ring.scene;
    scene.create("dead", kDetaches, kDead);
    ASSERT_TRUE(ring.becomes_detached("dead")) << ring.describe();
    EXPECT_EQ(scene.of("detached_at is not null", "dead"), "t");
    EXPECT_NE(scene.of("last_error", "dead").find("outbox.attach_subscription('dead', 'retained')"),
              std::string::npos)
        << scene.of("last_error", "dead");
    ASSERT_TRUE(ring.misses_some("dead")) << ring.describe();
    EXPECT_EQ(scene.of("coalesce(pid, 0)", "dead"), "0");
    EXPECT_EQ(scene.db.value("select count(*) from outbox.delivery_status "
                             "where subscription = 'dead' and status <> 'MISSED'"),
              "0");
    EXPECT_THROW((void) scene.db.value("select outbox.drain('1 s', 'dead')"), SqlError);
    EXPECT_EQ(scene.db.value("select outbox.drain('20 s')"), "t"); // of those that are attached

    scene.db.exec("select outbox.alter_subscription('dead', " +
                  Scene::options("dead", kafka().bootstrap()) + ")");
    scene.db.exec("select outbox.attach_subscription('dead', 'retained')");
    const auto missed = static_cast<size_t>(std::stol(scene.of("missed_events", "dead")));
    ASSERT_GT(ring.emitted.size(), missed);
    const Ids kept(ring.emitted.begin() + static_cast<long>(missed), ring.emitted.end());
    EXPECT_EQ(scene.sent("dead", kept.size()), kept) << "missed " << missed;
}

TEST(SubscriptionLag, OneThatIsAttachedAtNowLeavesTheOthersOutAndSaysSo)
{
    ShortRing ring;
    Scene &scene = ring.scene;
    scene.create("paused", kDetaches);
    const std::string first = scene.emit();
    ring.emitted.push_back(first);
    EXPECT_EQ(scene.sent("paused", 1), Ids{first});
    EXPECT_EQ(scene.db.value("select outbox.wait_published($1, '20 s', 'paused')", first), "t");
    scene.db.exec("select outbox.pause('test', 'paused')");
    ASSERT_TRUE(scene.becomes("paused", "paused")) << ring.describe();
    ASSERT_TRUE(ring.becomes_detached("paused")) << ring.describe();
    ASSERT_TRUE(ring.misses_some("paused")) << ring.describe();
    scene.db.exec("select outbox.resume('paused')");
    scene.db.exec("select outbox.attach_subscription('paused', 'now')");
    EXPECT_EQ(scene.of("missed_events", "paused"), std::to_string(ring.emitted.size() - 1));
    EXPECT_EQ(scene.db.value("select count(*) from outbox.delivery_status where "
                             "subscription = 'paused' and status not in ('MISSED', 'PUBLISHED')"),
              "0");
    // Who reads the partitions keeps them: what is published is gone two seconds later.
    Db reader = scene.database.connect();
    reader.exec("begin; select from outbox.events");
    const std::string last = scene.emit();
    EXPECT_EQ(scene.db.value("select outbox.wait_published($1, '20 s', 'paused')", last), "t");
    EXPECT_EQ(scene.sent("paused", 2), (Ids{first, last}));
    EXPECT_EQ(scene.db.value("select status from outbox.event_deliveries($1) "
                             "where subscription = 'paused'",
                             last),
              "PUBLISHED");
    EXPECT_THROW((void) scene.db.value("select outbox.wait_published($1, '1 s', 'paused')",
                                       ring.emitted.back()),
                 SqlError);
}

// What was committed before its lists were changed is missed, or not, by those that held then. What
// was set aside and not yet passed is missed once, as when the server has crashed in between.
TEST(SubscriptionLag, WhatIsMissedHasTheTypesOfItsCommit)
{
    ShortRing ring;
    Scene &scene = ring.scene;
    scene.create("paused", std::string(kDetaches) + ", event_types => '{first}'");
    scene.db.exec("select outbox.pause('test', 'paused')");
    ASSERT_TRUE(scene.becomes("paused", "paused")) << ring.describe();
    const std::string set_aside = scene.emit("first");
    for (const char *type : {"made", "first", "made", "first", "made"})
        (void) scene.emit(type);
    scene.db.exec("insert into outbox.deliveries (seq, xid, slot, event_id, lane, topic, "
                  "partition_key, state, blocking, attempts, failed_at, next_attempt_at, "
                  "last_error, subscription) select e.seq, e.xid, e.slot, e.id, 1, 't', 'k', "
                  "'RETRYING', true, 1, now(), now(), 'REFUSED: refused', 'paused' "
                  "from outbox.events e where e.id = '" +
                  set_aside + "'");
    scene.db.exec("select outbox.alter_subscription('paused', null, '{made}')");
    ASSERT_TRUE(ring.becomes_detached("paused")) << ring.describe();
    ASSERT_TRUE(ring.misses_some("paused")) << ring.describe();
    scene.db.exec("select outbox.attach_subscription('paused', 'now')");
    EXPECT_EQ(scene.of("missed_events", "paused"), std::to_string(ring.emitted.size() + 3));
}

// Its events are older than max_lag when it commits. Nor does a partition that is emptied alarm
// anybody.
TEST(SubscriptionLag, ALongTransactionGetsNoHealthyOneDetached)
{
    ShortRing ring;
    Scene &scene = ring.scene;
    scene.create("well", kDetaches);
    Db open = scene.database.connect();
    open.exec("begin");
    const std::string late = Scene::emit(open, scene.database.type());
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(8);
    EXPECT_TRUE(ring.emit_until([&] { return std::chrono::steady_clock::now() > until; }));
    open.exec("commit");
    const auto then = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    EXPECT_TRUE(ring.emit_until([&] { return std::chrono::steady_clock::now() > then; }));
    EXPECT_EQ(scene.of("detached_at is null", "well"), "t") << ring.describe();
    const Ids sent = scene.sent("well", ring.emitted.size() + 1);
    EXPECT_EQ(sent.size(), ring.emitted.size() + 1);
    EXPECT_EQ(std::count(sent.begin(), sent.end(), late), 1);
    EXPECT_GT(number(scene.db, "select sum(done_total) from outbox.maintenance_status "
                               "where task = 'truncation'"),
              0);
    EXPECT_FALSE(ring.server.log_contains("was truncated, and not by the relay"));
    EXPECT_FALSE(ring.server.log_contains("events were gone before they were published"));
}

TEST(SubscriptionLag, OneThatMayHoldIsNamedAndKeepsAll)
{
    ShortRing ring;
    Scene &scene = ring.scene;
    scene.create("holds", " || '{\"max_lag\": \"1s\"}'");
    scene.db.exec("select outbox.pause('test', 'holds')");
    EXPECT_TRUE(ring.emit_until(
        [&]
        {
            return ring.server.log_text().find(
                       "subscription \"holds\" holds events back for longer "
                       "than its max_lag") != std::string::npos;
        }))
        << ring.describe();
    EXPECT_EQ(scene.of("detached_at is null", "holds"), "t");
    EXPECT_GT(number(scene.db, "select count(*) from outbox.maintenance_status where "
                               "held_back_by = 'events that subscription holds has not passed'"),
              0);
    scene.db.exec("select outbox.resume('holds')");
    EXPECT_EQ(scene.sent("holds", ring.emitted.size()), ring.emitted);
}
