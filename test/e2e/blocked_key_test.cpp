// Keys are blocked for long, many events wait behind them, and servers die meanwhile.
#include <algorithm>
#include <random>
#include <thread>

#include "faults.h"
#include "real_kafka_test.h"
#include "small_topic.h"
#include "workload.h"

using namespace outbox::test;

namespace
{

// Emits for a key in one transaction.
void
emit_backlog(SmallTopic &scene, const std::string &key, int count)
{
    scene.db().exec("select count(outbox.emit($1, $2, 'good', '{}')) from "
                    "generate_series(1, $3::int)",
                    scene.database().type(), key, count);
}

// The slowest of some events of other keys, each published before the next is emitted.
Milliseconds
slowest_of_others(SmallTopic &scene, int count)
{
    Milliseconds slowest(0);
    for (int i = 0; i < count; ++i)
    {
        const auto start = Clock::now();
        const std::string id = scene.emit("other" + std::to_string(i));
        if (scene.db().value("select outbox.wait_published($1, '20 s')", id) != "t")
            return Milliseconds::max();
        slowest = std::max(slowest, since(start));
    }
    return slowest;
}

} // namespace

REAL_KAFKA_TEST(BlockedKey, ALongLineCostsNoMemoryAndDoesNotSlowOtherKeysAndGoesOutInOrder)
{
    constexpr int kLine = 200000;
    constexpr int kStep = 20000;
    constexpr int kMaxMessageBytes = 200000;
    SmallTopic scene(cluster(), {{"outbox.max_attempts", "1"}}, 1, kMaxMessageBytes);
    ASSERT_TRUE(scene.arrive({scene.emit("other")}));
    const std::string head = scene.emit_too_large("k");
    ASSERT_TRUE(scene.reaches_status(head, "FAILED")) << scene.describe();
    emit_backlog(scene, "k", kStep);
    const auto line_is = [&](int count)
    {
        return wait_until(std::chrono::seconds(60),
                          [&] { return scene.deliveries("WAITING") == count; });
    };
    ASSERT_TRUE(line_is(kStep)) << scene.describe();
    const pid_t relay = scene.database().relay_pid();
    const long before = memory_kb(relay, "RssAnon");
    for (int emitted = kStep; emitted < kLine; emitted += kStep)
        emit_backlog(scene, "k", kStep);
    ASSERT_TRUE(line_is(kLine)) << scene.describe();
    const long after = memory_kb(relay, "RssAnon");
    EXPECT_EQ(scene.database().relay_pid(), relay);
    EXPECT_LT(after - before, 4096) << "kB for " << kLine - kStep << " waiting events";
    EXPECT_LT(slowest_of_others(scene, 50).count(), 500) << "milliseconds";

    const auto start = Clock::now();
    scene.db().exec("select outbox.discard($1, 'test')", head);
    EXPECT_LT(slowest_of_others(scene, 20).count(), 2000) << "milliseconds, while the line drains";
    const Report report = scene.check({head});
    std::printf("%d events behind a blocked key: RssAnon %ld -> %ld kB, drained in %ld ms\n", kLine,
                before, after, static_cast<long>(since(start).count()));
    EXPECT_TRUE(report.exact()) << report.summary();
}

// Others keep emitting for the key while its line goes out: some commit events with lower numbers
// than what is on its way by then.
REAL_KAFKA_TEST(BlockedKey, WhatJoinsALineWhileItGoesOutIsNotForgotten)
{
    constexpr int kRounds = 8;
    SmallTopic scene(cluster(), {{"outbox.max_attempts", "1"}});
    Ids heads;
    Db slow = scene.connect();
    for (int round = 0; round < kRounds; ++round)
    {
        const std::string head = scene.emit_too_large("k");
        heads.push_back(head);
        ASSERT_TRUE(scene.reaches_status(head, "FAILED")) << scene.describe();
        slow.exec("begin");
        const std::string low =
            slow.value("select outbox.emit($1, 'k', 'slow', '{}')", scene.database().type());
        emit_backlog(scene, "k", 2000);
        scene.db().exec("select outbox.discard($1, 'test')", head);
        ASSERT_TRUE(wait_until(std::chrono::seconds(20),
                               [&] { return scene.deliveries("WAITING") < 1500; }))
            << scene.describe();
        slow.exec("commit");
        const std::string later = scene.emit("k");
        ASSERT_TRUE(
            wait_until(std::chrono::seconds(20), [&] { return scene.deliveries() == round + 1; }))
            << scene.describe();
        ASSERT_TRUE(scene.arrive({low, later}));
        const Ids arrived = scene.arrived("k");
        EXPECT_LT(std::find(arrived.begin(), arrived.end(), low),
                  std::find(arrived.begin(), arrived.end(), later))
            << "emitted after the other one's commit";
    }
    // Of the others no order is promised: the application did not serialise them.
    const Report report = scene.check(heads);
    EXPECT_TRUE(report.lost.empty() && report.invented.empty()) << report.summary();
}

// Refused events are retried, discarded and released all the time, and the server dies at random
// moments.
REAL_KAFKA_TEST(BlockedKey, NothingIsLostOrOvertakenWhenTheServerDiesWhileKeysAreBlockedAndReleased)
{
    const int rounds = fault_rounds(6);
    const unsigned seed = choose_seed();
    std::mt19937 random(seed);
    const auto choose = [&](int count)
    { return std::uniform_int_distribution<int>(0, count - 1)(random); };

    OwnCluster server;
    server.expect_kill();
    SmallTopic scene(server, {{"outbox.max_attempts", "2"}}, 4);
    Ids discarded;
    for (int round = 0; round < rounds; ++round)
    {
        const auto until = Clock::now() + Milliseconds(300 + choose(1200));
        while (Clock::now() < until)
        {
            const std::string key = "k" + std::to_string(choose(12));
            if (choose(6) == 0)
                scene.emit_too_large(key);
            else
                scene.emit_several(key, 1 + choose(20));
            if (choose(8) == 0)
                for (const std::string &id : scene.db().column(
                         "select event_id from (select event_id, outbox.discard(event_id, 'test') "
                         "from outbox.dead_letters order by seq limit 3) d"))
                    discarded.push_back(id);
            if (choose(12) == 0)
                scene.db().exec("select outbox.retry_failed(max => 2)");
            scene.consumer().read_for(Milliseconds(1));
        }
        if (choose(2) == 0)
            scene.database().kill_relay();
        else
            server.restart(Shutdown::kImmediate);
        scene.connect_again();
    }
    // Whatever is refused now is given up.
    const auto settled = [&]
    {
        scene.db().exec("select outbox.discard(event_id, 'end') from outbox.dead_letters");
        return scene.deliveries() == scene.deliveries("DISCARDED") &&
               scene.db().value("select backlog_events from outbox.relay_status") == "0";
    };
    EXPECT_TRUE(wait_until(std::chrono::seconds(60), settled)) << scene.describe();
    const Ids left_out =
        scene.db().column("select id from outbox.event_status where status = 'DISCARDED'");
    for (const std::string &id : discarded)
        EXPECT_EQ(std::count(left_out.begin(), left_out.end(), id), 1)
            << id << " is not discarded any more";
    const Report report = scene.check(left_out);
    EXPECT_TRUE(report.complete_and_ordered()) << report.summary();
    print_figures("server killed while keys are blocked and released", rounds, report);
}
