// A subscription to a webhook, from a transaction to what an endpoint has taken.
#include <algorithm>
#include <random>

#include "e2e/faults.h"
#include "support/checker.h"
#include "webhook_subscription_scene.h"
#include "e2e/workload.h"

using namespace outbox::test;

namespace
{

Report
compare_with(Db &db, const Endpoint &endpoint)
{
    return compare(committed_events(db), endpoint.taken());
}

HttpReply
unless_poison(const HttpRequest &request, int status, const std::string &body)
{
    return request.body.find("poison") != std::string::npos ? HttpReply::status(status, body)
                                                            : HttpReply::status(204);
}

} // namespace

TEST(Webhooks, CommittedEventsArriveOnceInOrderOfTheirKeys)
{
    Endpoint endpoint;
    WebhookScene scene(cluster());
    scene.subscribe(endpoint.url());
    Workload workload(scene.server, scene.database, {});
    workload.finish();
    ASSERT_TRUE(scene.arrives(endpoint)) << scene.describe();
    const Report report = compare_with(scene.db, endpoint);
    EXPECT_TRUE(report.exact()) << report.summary();
    EXPECT_EQ(scene.status("state"), "running");
}

// Whatever dies: nothing lost, nothing invented, order of each key.
TEST(Webhooks, NothingIsLostOrReorderedWhenRelayServerAndEndpointAreKilledAtRandom)
{
    OwnCluster server(kFaultSettings);
    server.expect_kill();
    Endpoint endpoint;
    WebhookScene scene(server);
    scene.subscribe(endpoint.url(), "'timeout', '2s'");
    Workload::Options options;
    options.clients = 4;
    options.server_may_crash = true;
    options.transactions = 1000000;
    std::mt19937 random(choose_seed());
    Workload workload(server, scene.database, options);
    ASSERT_TRUE(wait_until(kWebhookLimit, [&] { return endpoint.ids().size() > 100; }));
    std::vector<Milliseconds> recoveries;
    const int rounds = fault_rounds(6);
    for (int round = 0; round < rounds && !HasFailure(); round++)
    {
        std::this_thread::sleep_for(Milliseconds(random() % 700));
        const auto struck = Clock::now();
        switch (round < 4 ? round : static_cast<int>(random() % 4))
        {
        case 0:
            scene.db = scene.database.connect();
            scene.kill_relay();
            break;
        case 1:
            strike(Victim::kPostmaster, server, scene.database);
            break;
        case 2:
            strike(Victim::kEverything, server, scene.database);
            break;
        default:
            endpoint.kill();
            std::this_thread::sleep_for(Milliseconds(random() % 500));
            endpoint.start();
        }
        const auto before = endpoint.ids().size();
        EXPECT_TRUE(wait_until(kWebhookLimit, [&] { return endpoint.ids().size() > before + 20; }));
        recoveries.push_back(since(struck));
    }
    workload.stop();
    workload.finish();
    scene.db = scene.database.connect();
    EXPECT_TRUE(scene.arrives(endpoint)) << scene.describe();
    const Report report = compare_with(scene.db, endpoint);
    EXPECT_TRUE(report.complete_and_ordered()) << report.summary();
    print_figures("webhook: relay, server, endpoint killed", rounds, report, {}, recoveries);
}

TEST(Webhooks, AnEventThatTheEndpointRefusesIsADeadLetterInTheEndAndOthersFlow)
{
    Endpoint endpoint([](const HttpRequest &request)
                      { return unless_poison(request, 422, "no such \x01\x1b[31morder\xff"); });
    WebhookScene scene(cluster());
    scene.subscribe(endpoint.url(), "'max_attempts', 3");
    const std::string bad = scene.emit("a", "{\"poison\": 1}");
    const std::string waits = scene.emit("a");
    const std::string flows = scene.emit("b");
    ASSERT_TRUE(scene.reaches("failed_events", "1")) << scene.describe();
    ASSERT_TRUE(wait_until(kWebhookLimit, [&] { return endpoint.ids().count(flows) == 1; }));
    EXPECT_EQ(endpoint.ids().count(waits), 0u);
    const Result row =
        scene.db.exec("select event_id, attempts, last_error from outbox.dead_letters "
                      "where subscription = 'hook'");
    EXPECT_EQ(row.text(0, 0), bad);
    EXPECT_EQ(row.text(0, 1), "3");
    EXPECT_NE(row.text(0, 2).find("answered 422 Unprocessable Content: no such [31morder?"),
              std::string::npos)
        << row.text(0, 2);
    scene.db.exec("select outbox.discard($1, 'by hand', 'hook')", bad);
    EXPECT_TRUE(wait_until(kWebhookLimit, [&] { return endpoint.ids().count(waits) == 1; }));
}

TEST(Webhooks, HundredsOfDeadLettersFillNoLog)
{
    Endpoint endpoint([](const HttpRequest &) { return HttpReply::status(400, "none of them"); });
    OwnCluster server;
    WebhookScene scene(server);
    scene.subscribe(endpoint.url(), "'max_attempts', 1");
    scene.db.exec("select outbox.emit($1, i::text, 'made', '{}') from generate_series(1, 300) i",
                  scene.database.type());
    ASSERT_TRUE(scene.reaches("failed_events", "300")) << scene.describe();
    const auto lines_with = [log = server.log_text()](const std::string &text)
    {
        int count = 0;
        for (std::size_t at = 0; (at = log.find(text, at)) != std::string::npos; at++)
            count++;
        return count;
    };
    EXPECT_EQ(lines_with(" has failed: HTTP_400"), 100);
    EXPECT_EQ(lines_with("further events for "), 1);
}

// 5xx is the endpoint's trouble, unless it serves others meanwhile.
TEST(Webhooks, AnEventThatBreaksTheEndpointIsCountedWhileOthersAreServed)
{
    Endpoint endpoint([](const HttpRequest &request) { return unless_poison(request, 500, ""); });
    WebhookScene scene(cluster());
    scene.subscribe(endpoint.url(), "'max_attempts', 2");
    const std::string bad = scene.emit("a", "{\"poison\": 1}");
    int emitted = 0;
    ASSERT_TRUE(wait_until(kWebhookLimit,
                           [&]
                           {
                               (void) scene.emit("k" + std::to_string(++emitted % 5));
                               return scene.status("failed_events") == "1";
                           }))
        << scene.describe();
    EXPECT_EQ(
        scene.db.value("select event_id from outbox.dead_letters where subscription = 'hook'"),
        bad);
    EXPECT_TRUE(wait_until(kWebhookLimit,
                           [&] { return endpoint.ids().size() == static_cast<size_t>(emitted); }));
}

TEST(Webhooks, GoneStopsTheSubscriptionUntilAPersonSaysSo)
{
    Endpoint endpoint([](const HttpRequest &) { return HttpReply::status(410, "moved out"); });
    OwnCluster server;
    WebhookScene scene(server);
    scene.subscribe(endpoint.url());
    (void) scene.emit();
    ASSERT_TRUE(scene.reaches("state", "gone")) << scene.describe();
    EXPECT_NE(scene.status("last_error").find("moved out"), std::string::npos)
        << scene.status("last_error");
    const int asked = endpoint.requests();
    (void) scene.emit();
    server.restart();
    scene.db = scene.database.connect();
    ASSERT_TRUE(scene.reaches("state", "gone")) << scene.describe();
    EXPECT_EQ(endpoint.requests(), asked);
    endpoint.answer_with(nullptr);
    scene.db.exec("select outbox.resume(subscription => 'hook')");
    EXPECT_TRUE(scene.arrives(endpoint)) << scene.describe();
}

TEST(Webhooks, RetryAfterIsWaitedForAndShown)
{
    std::atomic<int> asked{0};
    Endpoint endpoint(
        [&](const HttpRequest &)
        {
            return ++asked == 1 ? HttpReply::status(429, "slowly", "retry-after: 3\r\n")
                                : HttpReply::status(204);
        });
    WebhookScene scene(cluster());
    scene.subscribe(endpoint.url());
    const auto began = Clock::now();
    (void) scene.emit();
    ASSERT_TRUE(wait_until(kWebhookLimit,
                           [&] { return scene.status("next_attempt_at is not null") == "true"; }))
        << scene.describe();
    EXPECT_EQ(asked, 1);
    EXPECT_TRUE(scene.arrives(endpoint)) << scene.describe();
    EXPECT_GE(since(began), Milliseconds(2900));
    EXPECT_EQ(scene.db.value("select count(*) from outbox.deliveries"), "0");
}

// However long it is dead, and however much there is by then.
TEST(Webhooks, ADeadEndpointDelaysNothingElseAndTakesNoMemory)
{
    Endpoint endpoint;
    WebhookScene scene(cluster());
    endpoint.kill();
    scene.subscribe(endpoint.url());
    scene.db.exec("select outbox.emit($1, i::text, 'made', jsonb_build_object('pad', "
                  "repeat('x', 500))) from generate_series(1, 20000) i",
                  scene.database.type());
    Consumer consumer(kafka().bootstrap(), {scene.database.topic()});
    EXPECT_TRUE(consumer.read_count(20000, kWebhookLimit));
    ASSERT_TRUE(wait_until(kWebhookLimit,
                           [&] { return std::stoi(scene.status("consecutive_failures")) > 3; }))
        << scene.describe();
    EXPECT_EQ(scene.db.value("select count(*) from outbox.deliveries"), "0");
    const long anonymous = memory_kb(std::stoi(scene.status("pid")), "RssAnon");
    std::printf("the relay's own memory: %ld kB\n", anonymous);
    EXPECT_GT(anonymous, 0);
    EXPECT_LT(anonymous, 64 * 1024);
    endpoint.start();
    EXPECT_TRUE(scene.arrives(endpoint)) << scene.describe();
    const Report report = compare_with(scene.db, endpoint);
    EXPECT_TRUE(report.complete_and_ordered()) << report.summary();
}

// The name leads to an allowed address when it is first asked for, and to a forbidden one then.
TEST(Webhooks, ANameThatMovesToAForbiddenAddressIsNotFollowed)
{
    const std::string host = file_for_server("127.0.0.1\n");
    const Settings settings = {{"outbox.webhook_deny_networks", "127.0.0.2/32, 169.254.0.0/16"}};
    OwnCluster server(settings);
    server.move_host(host);
    server.restart();
    Endpoint endpoint;
    WebhookScene scene(server);
    const std::string url = "http://hook.test" + endpoint.url().substr(16);
    scene.subscribe(url);
    (void) scene.emit();
    ASSERT_TRUE(scene.arrives(endpoint)) << scene.describe();
    for (const char *forbidden : {"127.0.0.2", "::ffff:127.0.0.2", "169.254.169.254"})
    {
        write_file(host, std::string(forbidden) + "\n");
        endpoint.kill();
        const int asked = endpoint.requests();
        (void) scene.emit();
        ASSERT_TRUE(wait_until(kWebhookLimit,
                               [&]
                               {
                                   return scene.status("last_error").find("ADDRESS_DENIED") == 0 &&
                                          scene.status("last_error").find("leads to") !=
                                              std::string::npos;
                               }))
            << scene.describe();
        EXPECT_EQ(endpoint.requests(), asked);
        write_file(host, "127.0.0.1\n");
        endpoint.start();
        ASSERT_TRUE(scene.arrives(endpoint)) << scene.describe();
    }
}

TEST(Webhooks, OptionsAreCheckedWhenTheSubscriptionIsMade)
{
    WebhookScene scene(cluster());
    const auto error_of = [&](const std::string &options)
    {
        try
        {
            scene.db.exec("select outbox.create_subscription('x', 'webhook', $1::jsonb)", options);
        }
        catch (const SqlError &error)
        {
            return error.sqlstate() + ": " + error.what();
        }
        return std::string("none");
    };
    const std::string begin = R"({"url": "https://h/", "secret_file": "s")";
    EXPECT_NE(error_of("{}").find("22023"), std::string::npos) << error_of("{}");
    EXPECT_NE(error_of(R"({"url": "ftp://h/", "secret_file": "s"})").find("must begin with"),
              std::string::npos);
    EXPECT_NE(error_of(begin + R"(, "no_such": 1})").find("no option \"no_such\""),
              std::string::npos);
    EXPECT_NE(error_of(begin + R"(, "max_in_flight": 0})").find("out of range"), std::string::npos);
    EXPECT_NE(error_of(begin + R"(, "headers": {"Authorization": "hunter2"}})").find("headers"),
              std::string::npos);
    EXPECT_EQ(error_of(begin + R"(, "headers": {"Authorization": "hunter2"}})").find("hunter2"),
              std::string::npos);
    EXPECT_EQ(error_of(begin + R"(, "headers": {"x-y": "z"}, "timeout": "15s", "rate": 10,
                                     "max_in_flight": 64, "format": "standard"})"),
              "none");
    scene.db.exec("select outbox.drop_subscription('x')");
    EXPECT_THROW(scene.db.exec("set outbox.webhook_deny_networks = '1.2.3'"), SqlError);
    scene.db.exec("set outbox.webhook_deny_networks = '1.2.3.0/24, ::1'");
}

// Not in views, not in the log, however it fails.
TEST(Webhooks, NoSecretIsShownAnywhere)
{
    Endpoint endpoint(
        [](const HttpRequest &request)
        { return HttpReply::status(400, "you sent " + request.header("authorization")); });
    OwnCluster server;
    WebhookScene scene(server);
    const std::string headers = file_for_server("Authorization: Bearer hunter2hunter2\n");
    scene.subscribe(endpoint.url() + "/s3cretpath",
                    "'max_attempts', 2, 'headers_file', '" + headers + "'");
    (void) scene.emit();
    ASSERT_TRUE(scene.reaches("failed_events", "1")) << scene.describe();
    write_file(scene.secret_file, "whsec_hunter2hunter2!\n");
    scene.db.exec("select pg_reload_conf()");
    ASSERT_TRUE(wait_until(kWebhookLimit, [&] { return !scene.status("config_error").empty(); }));
    std::string shown = scene.describe() + server.log_text();
    shown += scene.db.value("select string_agg(d::text, '') from outbox.dead_letters d");
    EXPECT_EQ(shown.find("hunter2"), std::string::npos) << shown;
    EXPECT_EQ(shown.find("MDEyMzQ1"), std::string::npos) << shown;
    EXPECT_EQ(shown.find("s3cretpath"), std::string::npos) << shown;
    EXPECT_NE(shown.find("you sent ***"), std::string::npos) << shown;
}

// What waits for its turn behind a slow key is in memory, not in the table: a row is dearer than a
// request.
TEST(Webhooks, AKeyThatIsSlowIsSetAsideAloneHoweverManyWaitForTheirTurn)
{
    constexpr int kKeys = 300;
    constexpr int kEvents = 1200;
    Endpoint endpoint(
        [](const HttpRequest &request)
        {
            const bool slow = request.header("outbox-aggregate-id") == "k0";
            std::this_thread::sleep_for(Milliseconds(slow ? 3000 : 20));
            return HttpReply::status(204);
        });
    WebhookScene scene(cluster());
    scene.subscribe(endpoint.url(), "'timeout', '15s', 'max_in_flight', 4");
    scene.db.exec("select outbox.pause('until there is a backlog', 'hook')");
    scene.db.exec("select count(outbox.emit($1, 'k' || i % " + std::to_string(kKeys) +
                      ", 'created', '{}')) from generate_series(1, " + std::to_string(kEvents) +
                      ") i",
                  scene.database.type());
    scene.db.exec("select outbox.resume('hook')");
    const auto count = [&](const std::string &column) { return std::stoi(scene.status(column)); };
    int most = 0;
    ASSERT_TRUE(wait_until(std::chrono::seconds(60),
                           [&]
                           {
                               const int rows = count("retrying_events") + count("waiting_events");
                               most = std::max(most, rows);
                               return endpoint.ids().size() >= kEvents - kEvents / kKeys;
                           }))
        << scene.describe();
    EXPECT_LE(most, 4 * kEvents / kKeys + 10) << scene.describe();
    ASSERT_TRUE(scene.arrives(endpoint, std::chrono::seconds(60))) << scene.describe();
    const Report report = compare_with(scene.db, endpoint);
    EXPECT_TRUE(report.exact()) << report.summary();
}
