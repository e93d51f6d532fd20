// What a subscription to RabbitMQ takes in memory, and what it loses when all that can die does.
#include <algorithm>
#include <csignal>
#include <random>

#include "rabbitmq_scene.h"
#include "e2e/workload.h"

using namespace outbox::test;

// Large events while RabbitMQ is away, and when it is back.
TEST(RabbitMq, MemoryStaysWithin64MegabytesWhateverWaits)
{
    OwnCluster server(kFaultSettings);
    RabbitMqServer &own = rabbitmq();
    RabbitMqScene scene(server, own);
    scene.create();
    ASSERT_TRUE(scene.becomes("state = 'running'")) << scene.describe();
    own.pause();
    scene.db.exec("select outbox.emit($1, i::text, 'made', to_jsonb(repeat('x', 900000))) from "
                  "generate_series(1, 150) i",
                  scene.database.type());
    scene.db.exec("select outbox.emit($1, i::text, 'made', '{}') from generate_series(1, 30000) i",
                  scene.database.type());
    ASSERT_TRUE(scene.becomes("consecutive_failures > 0")) << scene.describe();
    const auto memory = [&] { return memory_kb(std::stoi("0" + scene.status("pid")), "RssAnon"); };
    long most = memory();
    own.resume();
    const bool all = wait_until(std::chrono::seconds(60),
                                [&]
                                {
                                    most = std::max(most, memory());
                                    return scene.status("published_total") == "30150";
                                });
    EXPECT_TRUE(all) << scene.describe();
    EXPECT_LT(most, 64 * 1024);
    std::printf("RssAnon at most %ld kB\n", most);
}

// Lost 0, invented 0, in order per key.
TEST(RabbitMq, KillsOfRelayServerAndRabbitMqAtRandomLoseNothing)
{
    const unsigned seed = choose_seed();
    std::mt19937 random(seed);
    OwnCluster server(kFaultSettings);
    server.expect_kill();
    RabbitMqServer &own = rabbitmq();
    RabbitMqScene scene(server, own, kOutlivesCrashes);
    scene.create(kPatient);
    Workload::Options options;
    options.clients = 4;
    options.transactions = 1000000;
    options.server_may_crash = true;
    Workload workload(server, scene.database, options);
    const auto up_to = [&](int ms)
    { return Milliseconds(std::uniform_int_distribution<int>(0, ms)(random)); };
    const int rounds = fault_rounds(4);
    const auto pid = [&]
    {
        pid_t found = 0;
        (void) wait_until(kRabbitLimit,
                          [&]
                          {
                              scene.db = scene.database.connect();
                              const std::string text = scene.status("coalesce(pid, 0)");
                              found = text.empty() ? 0 : std::stoi(text);
                              return found != 0;
                          });
        return found;
    };
    for (int round = 0; round < rounds && !testing::Test::HasFailure(); round++)
    {
        std::this_thread::sleep_for(up_to(1500));
        switch (round % 4)
        {
        case 0:
            (void) kill(pid(), SIGKILL);
            break;
        case 1:
            own.kill9();
            std::this_thread::sleep_for(up_to(500));
            own.start();
            AmqpClient(own.port()).declare_bound(scene.queue, scene.exchange, kOutlivesCrashes);
            break;
        case 2:
            server.kill9();
            server.start();
            break;
        default:
            own.close_connections("for a test");
            (void) kill(pid(), SIGTERM);
        }
        scene.db = scene.database.connect();
        scene.read();
    }
    workload.stop();
    workload.finish();
    scene.db = scene.database.connect();
    const Report report = scene.check();
    EXPECT_TRUE(report.complete_and_ordered()) << report.summary() << "\n"
                                               << scene.describe() << "\n"
                                               << own.ctl({"list_bindings"});
    // The position is written a moment after the last answer. What was sent again may count again.
    EXPECT_TRUE(scene.becomes("published_total between " + std::to_string(report.events) + " and " +
                              std::to_string(report.events + report.duplicates)))
        << scene.describe();
    print_figures("kills of relay, server and RabbitMQ", rounds, report);
}
