// Subscriptions that send to NATS JetStream, beside default's, which sends to Kafka.
#include "../support/nats_server.h"

#include "test/e2e/faults.h"
#include "test/e2e/workload.h"
#include "test/support/process.h"
#include "test/support/seed.h"
#include "test/support/threads.h"
#include "test/support/tree.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>

using namespace outbox::test;

namespace
{

constexpr auto kLimit = std::chrono::seconds(60);

struct NatsScene
{
    explicit NatsScene(PgCluster &cluster, const std::string &config = "")
        : server(cluster), database(cluster), nats(config)
    {
        nats.start();
        nats.add_stream({"EVENTS", {"outbox.event.>"}});
        kafka().create_topic(database.topic());
    }

    void create(const std::string &more = "")
    {
        Db db = database.connect();
        db.exec("select outbox.create_subscription('n', 'nats', jsonb_build_object('servers', "
                "$1::text, 'timeout', '2s', 'backoff_initial', '50ms', 'backoff_max', '400ms')" +
                    more + ")",
                nats.url());
    }

    std::string emit(Db &db, const std::string &key, const std::string &payload = "{}")
    {
        return db.value("select outbox.emit($1, $2, 'made', $3::jsonb)", database.type(), key,
                        payload);
    }

    std::string status(const std::string &column)
    {
        Db db = database.connect();
        return db.value("select coalesce(" + column +
                        "::text, '') from "
                        "outbox.subscription_status where name = 'n'");
    }

    pid_t pid() { return std::stoi("0" + status("pid")); }

    std::vector<Delivery> deliveries(const std::string &stream = "EVENTS")
    {
        std::vector<Delivery> result;
        for (const NatsMessage &message : nats.messages(stream))
        {
            Delivery delivery;
            delivery.id = message.headers.at("id");
            delivery.topic = message.subject;
            delivery.offset = static_cast<int64_t>(message.sequence);
            delivery.key = message.headers.at("Outbox-Key");
            if (message.headers.count("Outbox-Tombstone") == 0)
                delivery.payload = message.value;
            result.push_back(delivery);
        }
        return result;
    }

    Report check()
    {
        Db db = database.connect();
        const std::vector<Event> events = committed_events(db);
        Report report;
        (void) wait_until(kLimit,
                          [&]
                          {
                              if (nats.count("EVENTS") < events.size())
                                  return false;
                              report = compare(events, deliveries());
                              return report.lost.empty();
                          });
        return compare(events, deliveries());
    }

    PgCluster &server;
    TestDatabase database;
    NatsServer nats;
};

// Of a process: what it has in memory of its own, in kB.
long
own_memory_kb(pid_t pid)
{
    std::ifstream file("/proc/" + std::to_string(pid) + "/status");
    for (std::string line; std::getline(file, line);)
        if (line.rfind("RssAnon:", 0) == 0)
            return std::stol(line.substr(8));
    return -1;
}

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
    { return wait_until(kLimit, [&] { return scene.status("last_error").find(text) == 0; }); };
    scene.nats.process().signal(SIGSTOP); // it hangs before it has said a word
    scene.create(" || '{\"stream\": \"EVENTS\", \"timeout\": \"3s\"}'");
    emit();
    EXPECT_TRUE(says("NO_CONNECTION: ")) << scene.status("last_error");
    EXPECT_EQ(rows(), "0");
    scene.nats.process().signal(SIGCONT);
    // Also heard: a server that hangs between two answers is one that answers for some.
    ASSERT_TRUE(wait_until(kLimit, [&]
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
    EXPECT_TRUE(wait_until(kLimit, [&] { return scene.status("published_total") == "500"; }));
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
    ASSERT_TRUE(wait_until(kLimit, [&] { return scene.nats.count("TYPES") == 300; }))
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
    ASSERT_TRUE(wait_until(kLimit, [&] { return scene.nats.count("EVENTS") == 100; }));
    ASSERT_TRUE(wait_until(
        kLimit,
        [&] {
            return db.value("select count(*) from outbox.dead_letters where subscription = 'n'") ==
                   "1";
        }))
        << scene.status("last_error");
    EXPECT_EQ(db.value("select event_id::text from outbox.dead_letters where subscription = 'n'"),
              poison);
    scene.nats.configure("max_payload: 1000000");
    // It takes the server a moment to read that.
    ASSERT_TRUE(wait_until(kLimit,
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
        kLimit,
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
    ASSERT_TRUE(wait_until(kLimit, [&] { return scene.nats.count("EVENTS") == 1; }));
    scene.nats.kill9();
    constexpr int kEvents = 30000;
    db.exec("select outbox.emit($1, 'k' || i % 1000, 'made', jsonb_build_object('i', i, 'x', "
            "repeat('y', 500))) from generate_series(1, $2::int) i",
            scene.database.type(), std::to_string(kEvents));
    // default has sent it all, while this one says what is in the way.
    EXPECT_EQ(db.value("select outbox.drain('60 s', 'default')"), "t");
    ASSERT_TRUE(wait_until(kLimit, [&] { return scene.status("state") == "backing_off"; }))
        << scene.status("state");
    EXPECT_NE(scene.status("last_error").find("NO_CONNECTION"), std::string::npos)
        << scene.status("last_error");
    EXPECT_EQ(db.value("select count(*) from outbox.deliveries where subscription = 'n'"), "0");
    const long dead = own_memory_kb(scene.pid());
    scene.nats.start();
    long most = dead;
    ASSERT_TRUE(wait_until(std::chrono::seconds(120),
                           [&]
                           {
                               most = std::max(most, own_memory_kb(scene.pid()));
                               return scene.nats.count("EVENTS") == kEvents + 1;
                           }))
        << scene.status("last_error");
    const Report report = scene.check();
    EXPECT_TRUE(report.complete_and_ordered()) << report.summary();
    EXPECT_LT(most, 64 * 1024);
    std::printf("nats: own memory %ld kB while dead, %ld kB at most; %zu duplicates\n", dead, most,
                report.duplicates);
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
        wait_until(kLimit, [&] { return shown().find("AUTHORIZATION") != std::string::npos; }))
        << shown();
    write_file(file, "verysecret\n");
    ASSERT_TRUE(wait_until(kLimit, [&] { return nats.count("EVENTS") == 1; })) << shown();
    for (const char *secret : {"wrongsecret", "verysecret"})
    {
        EXPECT_FALSE(server.log_contains(secret));
        EXPECT_EQ(shown().find(secret), std::string::npos);
    }
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
