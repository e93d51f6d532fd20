// What becomes of a subscription's events while NATS refuses them, hangs or is dead.
#include "nats_scene.h"

#include "test/e2e/faults.h"
#include "test/e2e/workload.h"
#include "test/support/process.h"
#include "test/support/seed.h"

#include <algorithm>
#include <csignal>
#include <random>
#include <thread>

using namespace outbox::test;

// As nats.md says, with the option `stream`: a row for each event would cost more than the event.
TEST(NatsSubscription, WhatAServerThatHangsDoesNotTakeIsNoRow)
{
    constexpr int kEvents = 3000;
    NatsScene scene(cluster());
    Db db = scene.database.connect();
    const auto rows = [&] { return db.value("select count(*) from outbox.deliveries"); };
    const auto emit = [&]
    {
        db.exec("select count(outbox.emit($1, 'k' || i, 'made', '{}')) from generate_series(1, " +
                    std::to_string(kEvents) + ") i",
                scene.database.type());
    };
    const auto says = [&](const std::string &text)
    { return wait_until(kNatsLimit, [&] { return scene.status("last_error").find(text) == 0; }); };
    scene.nats.process().signal(SIGSTOP); // it hangs before it has said a word
    scene.create(" || '{\"stream\": \"EVENTS\", \"timeout\": \"3s\"}'");
    emit();
    EXPECT_TRUE(says("NO_CONNECTION: ")) << scene.status("last_error");
    EXPECT_EQ(rows(), "0");
    scene.nats.process().signal(SIGCONT);
    // Also heard: a server that hangs between two answers is one that answers for some.
    ASSERT_TRUE(wait_until(kNatsLimit, [&]
                           { return scene.status("published_total") == std::to_string(kEvents); }));
    EXPECT_EQ(scene.nats.count("EVENTS"), kEvents);

    scene.nats.process().signal(SIGSTOP); // and while it is at work
    emit();
    EXPECT_TRUE(says("NO_ANSWER: ")) << scene.status("last_error");
    EXPECT_EQ(rows(), "0");
    scene.nats.process().signal(SIGCONT);
    const Report report = scene.check();
    EXPECT_TRUE(report.exact()) << report.summary();
}

TEST(NatsSubscription, APoisonEventHoldsUpItsKeyOnlyAndIsRetried)
{
    NatsScene scene(cluster(), "max_payload: 20000");
    scene.create(" || '{\"max_attempts\": 2}'");
    Db db = scene.database.connect();
    const std::string poison =
        scene.emit(db, "bad", R"({"x": ")" + std::string(30000, 'x') + R"("})");
    const std::string behind = scene.emit(db, "bad");
    for (int i = 0; i < 100; i++)
        (void) scene.emit(db, "good" + std::to_string(i % 7));
    ASSERT_TRUE(wait_until(kNatsLimit, [&] { return scene.nats.count("EVENTS") == 100; }));
    ASSERT_TRUE(wait_until(
        kNatsLimit,
        [&] {
            return db.value("select count(*) from outbox.dead_letters where subscription = 'n'") ==
                   "1";
        }))
        << scene.status("last_error");
    EXPECT_EQ(db.value("select event_id::text from outbox.dead_letters where subscription = 'n'"),
              poison);
    scene.nats.configure("max_payload: 1000000");
    // It takes the server a moment to read that.
    ASSERT_TRUE(wait_until(kNatsLimit,
                           [&]
                           {
                               db.exec("select outbox.retry(event_id, 'n') from "
                                       "outbox.dead_letters where subscription = 'n'");
                               return scene.nats.count("EVENTS") == 102;
                           }))
        << scene.status("last_error");
    const Report report = scene.check();
    EXPECT_TRUE(report.complete_and_ordered()) << report.summary();
}

TEST(NatsSubscription, AMissingStreamIsMadeAndWhatWaitedArrivesInOrder)
{
    NatsScene scene(cluster());
    scene.nats.delete_stream("EVENTS");
    scene.nats.add_stream({"ELSE", {"else"}});
    scene.create();
    Db db = scene.database.connect();
    for (int i = 0; i < 60; i++)
        (void) scene.emit(db, "k" + std::to_string(i % 4));
    ASSERT_TRUE(wait_until(
        kNatsLimit,
        [&] {
            return db.value("select count(*) from outbox.deliveries where subscription = 'n'") !=
                   "0";
        }))
        << scene.status("last_error");
    EXPECT_EQ(db.value("select count(*) from outbox.dead_letters where subscription = 'n'"), "0");
    scene.nats.add_stream({"EVENTS", {"outbox.event.>"}});
    const Report report = scene.check();
    EXPECT_TRUE(report.complete_and_ordered()) << report.summary() << scene.status("last_error");
    EXPECT_EQ(report.deliveries, 60U);
}

TEST(NatsSubscription, DeadNatsHoldsUpNobodyAndTheBacklogGoesOutInLittleMemory)
{
    NatsScene scene(cluster());
    scene.create();
    Db db = scene.database.connect();
    (void) scene.emit(db, "k");
    ASSERT_TRUE(wait_until(kNatsLimit, [&] { return scene.nats.count("EVENTS") == 1; }));
    scene.nats.kill9();
    constexpr int kEvents = 30000;
    db.exec("select outbox.emit($1, 'k' || i % 1000, 'made', jsonb_build_object('i', i, 'x', "
            "repeat('y', 500))) from generate_series(1, $2::int) i",
            scene.database.type(), std::to_string(kEvents));
    // default has sent it all, while this one says what is in the way.
    EXPECT_EQ(db.value("select outbox.drain('60 s', 'default')"), "t");
    ASSERT_TRUE(wait_until(kNatsLimit, [&] { return scene.status("state") == "backing_off"; }))
        << scene.status("state");
    EXPECT_NE(scene.status("last_error").find("NO_CONNECTION"), std::string::npos)
        << scene.status("last_error");
    EXPECT_EQ(db.value("select count(*) from outbox.deliveries where subscription = 'n'"), "0");
    const long dead = memory_kb(scene.pid(), "RssAnon");
    scene.nats.start();
    long most = dead;
    ASSERT_TRUE(wait_until(std::chrono::seconds(120),
                           [&]
                           {
                               most = std::max(most, memory_kb(scene.pid(), "RssAnon"));
                               return scene.nats.count("EVENTS") == kEvents + 1;
                           }))
        << scene.status("last_error");
    const Report report = scene.check();
    EXPECT_TRUE(report.complete_and_ordered()) << report.summary();
    EXPECT_LT(most, 64 * 1024);
    std::printf("nats: own memory %ld kB while dead, %ld kB at most; %zu duplicates\n", dead, most,
                report.duplicates);
}

TEST(NatsSubscription, KillsOfRelayServerAndNatsLoseNothing)
{
    OwnCluster server(kFaultSettings);
    server.expect_kill();
    NatsScene scene(server);
    scene.create();
    std::mt19937 random(choose_seed());
    Workload::Options options;
    options.clients = 4;
    options.transactions = 100000;
    options.server_may_crash = true;
    Workload workload(server, scene.database, options);
    const int rounds = fault_rounds(5);
    for (int i = 0; i < rounds; i++)
    {
        std::this_thread::sleep_for(Milliseconds(random() % 800));
        switch (i % 5)
        {
        case 0:
            if (const pid_t pid = scene.pid(); pid > 0)
                scene.database.kill_process(pid);
            break;
        case 2:
            strike(random() % 2 == 0 ? Victim::kPostmaster : Victim::kEverything, server,
                   scene.database);
            break;
        case 3:
            scene.nats.process().pause();
            std::this_thread::sleep_for(Milliseconds(random() % 3000));
            scene.nats.process().resume();
            break;
        default:
            scene.nats.kill9();
            std::this_thread::sleep_for(Milliseconds(random() % 500));
            scene.nats.start();
        }
    }
    workload.stop();
    workload.finish();
    const Report report = scene.check();
    EXPECT_TRUE(report.complete_and_ordered()) << report.summary() << scene.status("last_error");
    print_figures("kills of relay, server and NATS", rounds, report);
}
