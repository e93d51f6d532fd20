// What was set aside follows a change of routes, and what is new does not wait for it.
#include "routes_scene.h"

using namespace outbox::test;

namespace
{

// So many events are emitted and set aside, as if they had FAILED. The relay, which is
// paused, does not know.
void
set_aside(RoutesScene &scene, int rows, const std::string &key)
{
    scene.route("aside", scene.topics[0]);
    scene.db.exec("select outbox.pause('many are set aside')");
    scene.db.exec("select outbox.emit($1, " + key +
                      ", 'aside', '{}') "
                      "from generate_series(1, $2::int) n",
                  scene.database.type(), std::to_string(rows));
    scene.db.exec("insert into outbox.deliveries (seq, xid, slot, event_id, lane, topic, "
                  "partition_key, state, blocking, attempts, failed_at) "
                  "select e.seq, e.xid, substring(e.tableoid::regclass::text from '\\d+$')::int2, "
                  "e.id, e.seq, $1, e.aggregate_id, 'FAILED', true, 1, now() "
                  "from outbox.events e",
                  scene.topics[0]);
}

// Rows of other topics than this.
int
left(RoutesScene &scene, const std::string &topic)
{
    return std::stoi(
        scene.db.value("select count(*) from outbox.deliveries where topic <> $1", topic));
}

// Rows whose lanes the relay has not looked at, as set_aside() makes them.
int
old_lanes(RoutesScene &scene)
{
    return std::stoi(scene.db.value("select count(*) from outbox.deliveries where lane = seq"));
}

} // namespace

// Tens of thousands of rows follow a change of routes, which takes seconds. What is new goes out
// meanwhile, also when routes change again, and when the relay starts anew; with a key of one of
// the rows as well.
TEST(Routes, NothingWaitsUntilAllThatWasSetAsideHasFollowed)
{
    constexpr int kRows = 20000;
    RoutesScene scene({"aside", "first", "second", "third", "fourth"});
    set_aside(scene, kRows, "case when n = 1 then 'k' else n::text end");
    scene.database.restart_relay();
    scene.db.exec("select outbox.resume()");
    scene.emit("fine");
    EXPECT_EQ(scene.next().topic, scene.database.topic());
    for (int change = 1; change <= 4; ++change)
    {
        const std::string &topic = scene.topics[static_cast<size_t>(change)];
        scene.route("aside", topic);
        if (change == 4)
            scene.database.restart_relay();
        const std::string id = scene.emit("fine");
        EXPECT_EQ(scene.next().header("id"), id);
        EXPECT_GT(left(scene, topic), 0) << "change " << change;
    }
    EXPECT_TRUE(wait_until(3 * kRouteLimit, [&] { return left(scene, scene.topics[4]) == 0; }));

    // A start that finds lanes by the key of another database.
    EXPECT_TRUE(wait_until(3 * kRouteLimit, [&] { return old_lanes(scene) == 0; }));
    scene.db.exec("update outbox.deliveries set lane = seq");
    scene.db.exec("select pg_terminate_backend($1)", scene.database.relay_pid());
    const std::string id = scene.emit("fine");
    EXPECT_EQ(scene.next().header("id"), id);
    EXPECT_GT(old_lanes(scene), 0);
    EXPECT_TRUE(wait_until(3 * kRouteLimit, [&] { return old_lanes(scene) == 0; }));
}

// One event of each of hundreds of keys comes at once, whose rows are still to follow a change of
// routes. What is behind them does not wait for these rows, but for a few.
TEST(Routes, ABurstOfKeysThatHaveRowsHoldsUpNothing)
{
    constexpr int kKeys = 200;
    constexpr int kRows = 100 * kKeys;
    RoutesScene scene({"aside", "new"});
    const std::string key = "(n % " + std::to_string(kKeys) + ")::text";
    set_aside(scene, kRows, key);
    scene.database.restart_relay();
    scene.db.exec("select outbox.resume()");
    scene.emit("fine");
    EXPECT_EQ(scene.next().topic, scene.database.topic());
    EXPECT_TRUE(wait_until(3 * kRouteLimit, [&] { return old_lanes(scene) == 0; }));

    scene.db.exec("begin");
    scene.route("aside", scene.topics[1]);
    scene.db.exec("select outbox.emit($1, " + key +
                      ", 'aside', '{}') "
                      "from generate_series(1, $2::int) n",
                  scene.database.type(), std::to_string(kKeys));
    scene.db.exec("commit");
    const std::string id = scene.emit("fine");
    EXPECT_EQ(scene.next().header("id"), id);
    EXPECT_GT(left(scene, scene.topics[1]), kRows / 2);
    EXPECT_TRUE(wait_until(3 * kRouteLimit, [&] { return left(scene, scene.topics[1]) == 0; }));
}

// The look at all rows at a start takes the same time for each, also in a table of which the
// planner knows nothing yet.
TEST(Routes, AStartLooksAtManyRowsWithoutStatistics)
{
    constexpr int kRows = 30000;
    RoutesScene scene({"aside"});
    scene.db.exec("alter table outbox.deliveries set (autovacuum_enabled = off)");
    set_aside(scene, kRows, "n::text");
    scene.database.restart_relay();
    EXPECT_TRUE(wait_until(kRouteLimit, [&] { return old_lanes(scene) == 0; }));
}
