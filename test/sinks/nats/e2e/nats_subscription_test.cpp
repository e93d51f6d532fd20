// Subscriptions that send to NATS JetStream, beside default's, which sends to Kafka.
#include "nats_scene.h"

#include "test/support/process.h"
#include "test/support/threads.h"
#include "test/support/tree.h"

#include <algorithm>
#include <filesystem>
#include <set>

using namespace outbox::test;

namespace
{

std::string
fault_of(Db &db, const std::string &options)
{
    try
    {
        db.exec("select outbox.create_subscription('bad', 'nats', '" + options + "')");
    }
    catch (const SqlError &error)
    {
        return error.sqlstate() + " " + error.what();
    }
    return "";
}

} // namespace

TEST(NatsSubscription, EventsArriveOnTheirSubjectInOrder)
{
    NatsScene scene(cluster());
    scene.create();
    Db db = scene.database.connect();
    db.exec("select outbox.emit($1, 'k' || i % 10, 'made', jsonb_build_object('i', i)) from "
            "generate_series(1, 500) i",
            scene.database.type());
    const Report report = scene.check();
    EXPECT_TRUE(report.exact()) << report.summary() << scene.status("last_error");
    EXPECT_EQ(report.deliveries, 500U);
    EXPECT_TRUE(wait_until(kNatsLimit, [&] { return scene.status("published_total") == "500"; }));
    EXPECT_EQ(scene.status("state"), "running");
    const NatsMessage message = scene.nats.messages("EVENTS").at(0);
    EXPECT_EQ(message.subject, scene.database.topic());
    EXPECT_EQ(message.headers.at("Nats-Msg-Id"), message.headers.at("id"));
    EXPECT_EQ(message.headers.at("event_type"), "made");
    EXPECT_EQ(message.value, R"({"i": 1})");

    // A latch's signal that another thread caught would never reach the relay's own.
    const std::string relay = std::to_string(scene.pid());
    std::set<std::string> others = threads(relay);
    others.erase(relay);
    for (const std::string &thread : others)
        for (const int number : {SIGTERM, SIGURG, SIGHUP, SIGUSR1, SIGINT})
            EXPECT_NE(blocked_signals(thread, ~std::uint64_t{0}, relay) &
                          (std::uint64_t{1} << (number - 1)),
                      0U)
                << number;
    EXPECT_GE(others.size(), 3U);
    EXPECT_LE(others.size(), 9U) << "libnats has three, and each sink two";
}

TEST(NatsSubscription, TheDocumentationsConsumerTakesThemInOrder)
{
    std::string python =
        run_or_throw(Command({in_source("scripts/fetch-nats-py")}), std::chrono::seconds(120));
    python.erase(0, python.find('/')); // it may say first that it fetches
    python.erase(0, python.rfind('\n', python.size() - 2) == std::string::npos
                        ? 0
                        : python.rfind('\n', python.size() - 2) + 1);
    python.erase(python.find_last_not_of('\n') + 1);
    NatsScene scene(cluster());
    scene.create();
    Db db = scene.database.connect();
    std::string expected;
    for (int i = 0; i < 5; i++)
        expected += scene.emit(db, "a key") + " a key made {} \n";
    Command consumer({python + "/bin/python", in_source("docs/nats/consumer.py"), scene.nats.url(),
                      "EVENTS", "outbox.event.>", "5"});
    EXPECT_EQ(run_or_throw(consumer, std::chrono::seconds(60)), expected);
}

TEST(NatsSubscription, SubjectsByTypeKeepTheOrderOfAKey)
{
    NatsScene scene(cluster());
    scene.nats.add_stream({"TYPES", {"types.>"}});
    Db db = scene.database.connect();
    db.exec("select outbox.create_subscription('n', 'nats', jsonb_build_object('servers', "
            "$1::text, 'subject', 'types.{event_type}', 'stream', 'TYPES'))",
            scene.nats.url());
    db.exec("select outbox.emit($1, 'k' || i % 3, 'type.' || i % 4, jsonb_build_object('i', i)) "
            "from generate_series(1, 300) i",
            scene.database.type());
    ASSERT_TRUE(wait_until(kNatsLimit, [&] { return scene.nats.count("TYPES") == 300; }))
        << scene.status("last_error");
    std::map<std::string, std::vector<int>> of_key;
    for (const NatsMessage &message : scene.nats.messages("TYPES"))
        of_key[message.headers.at("Outbox-Key")].push_back(std::stoi(message.value.substr(6)));
    for (const auto &[key, numbers] : of_key)
        EXPECT_TRUE(std::is_sorted(numbers.begin(), numbers.end())) << key;
    EXPECT_EQ(of_key.size(), 3U);
}

TEST(NatsSubscription, OptionsThatCannotBeAreRefusedWithoutTheirSecrets)
{
    NatsScene scene(cluster());
    Db db = scene.database.connect();
    for (const auto &[options, words] : std::vector<std::pair<std::string, std::string>>{
             {"{}", "options must have \"servers\""},
             {R"({"servers": "nats://app:verysecret@host"})", "must not hold a user"},
             {R"({"servers": "http://host"})", "scheme other than"},
             {R"({"servers": "host:0"})", "is no list of servers"},
             {R"({"servers": "host", "user": "x"})", "needs \"password_file\""},
             {R"({"servers": "host", "password": "verysecret"})", "password"},
             {R"({"servers": "host", "token_file": "a", "credentials_file": "b"})",
              "exclude each other"},
             {R"({"servers": "host", "cert_file": "a"})", "needs \"key_file\""},
             {R"({"servers": "host", "subject": "$JS.{key}"})", "begins with \"$\""},
             {R"({"servers": "host", "subject": "a.{id}"})", "unknown placeholder"},
             {R"({"servers": "host", "stream": "a.b"})", "stream"},
             {R"({"servers": "host", "timeout": "1 parsec"})", "is no time"}})
    {
        std::string fault = fault_of(db, options);
        fault.erase(std::min(fault.size(), fault.rfind("\nin: "))); // the test's own words
        EXPECT_EQ(fault.substr(0, 5), "22023") << options << ": " << fault;
        EXPECT_NE(fault.find(words), std::string::npos) << options << ": " << fault;
        EXPECT_EQ(fault.find("verysecret"), std::string::npos) << fault;
    }
}

TEST(NatsSubscription, ASecretIsInNoLogAndNoView)
{
    constexpr char kUsers[] =
        R"(authorization { users: [ { user: admin, password: topsecret }, { user: app, password: verysecret } ] })";
    NatsServer nats(kUsers);
    nats.set_user("admin", "topsecret");
    nats.start();
    nats.add_stream({"EVENTS", {"outbox.event.>"}});
    OwnCluster server;
    TestDatabase database(server);
    const std::string file = (nats.directory() / "password").string();
    write_file(file, "wrongsecret\n");
    std::filesystem::permissions(file, std::filesystem::perms::all);
    Db db = database.connect();
    db.exec("select outbox.create_subscription('n', 'nats', jsonb_build_object('servers', "
            "$1::text, 'user', 'app', 'password_file', $2::text, 'backoff_initial', '50ms', "
            "'backoff_max', '100ms'))",
            nats.url(), file);
    db.exec("select outbox.emit($1, 'k', 'made', '{}')", database.type());
    const auto shown = [&]
    { return db.value("select string_agg(s::text, ' ') from outbox.subscription_status s"); };
    ASSERT_TRUE(
        wait_until(kNatsLimit, [&] { return shown().find("AUTHORIZATION") != std::string::npos; }))
        << shown();
    write_file(file, "verysecret\n");
    ASSERT_TRUE(wait_until(kNatsLimit, [&] { return nats.count("EVENTS") == 1; })) << shown();
    for (const char *secret : {"wrongsecret", "verysecret"})
    {
        EXPECT_FALSE(server.log_contains(secret));
        EXPECT_EQ(shown().find(secret), std::string::npos);
    }
}
