// Faults and what operators do, several at once, under load and at random, for OUTBOX_SOAK_MINUTES;
// "make soak" runs it. A key's events go to topics that refuse at times, and to where routes say.
// OUTBOX_CHAOS="route,held" leaves others out.
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <thread>

#include "faults.h"
#include "first_copies.h"
#include "real_kafka_test.h"
#include "support/kafka_admin.h"
#include "support/seed.h"

using namespace outbox::test;

namespace
{

constexpr auto kLap = std::chrono::seconds(60);
constexpr int kKeys = 12;
constexpr int kSmall = 2000; // bytes of a record
const char *const kKinds[] = {"plain", "strict", "small"};

struct Scene
{
    OwnCluster &server;
    const TestDatabase &database;
    Consumer &consumer;
    std::mt19937 &random;
    std::vector<std::thread> &holders;

    int up_to(int most) const { return std::uniform_int_distribution<int>(0, most)(random); }
    void wait_up_to(int ms) const { consumer.read_for(Milliseconds(up_to(ms))); }
    std::string type(const std::string &kind) const { return database.name() + "_" + kind; }
    std::string topic(const std::string &kind) const { return kTopicPrefix + type(kind); }
    std::string any_kind() const { return kKinds[up_to(std::size(kKinds) - 1)]; }
    void set_topic(const std::string &kind, const std::string &name, int value) const
    {
        set_topic_config(kafka().bootstrap(), topic(kind), {{name, std::to_string(value)}});
    }
    // In a session that may be ended at any time.
    void hold(const std::string &sql) const
    {
        const int ms = up_to(3000);
        holders.emplace_back(
            [this, sql, ms]
            {
                try
                {
                    Db db = database.connect();
                    db.exec("begin");
                    db.exec(sql);
                    db.exec("select pg_sleep($1::float8 / 1000)", ms);
                    db.exec("commit");
                }
                catch (const SqlError &)
                {
                    // it was ended, or locked out
                }
            });
    }
    void operate(const std::string &sql) const
    {
        try
        {
            database.connect().exec(sql);
        }
        catch (const SqlError &error)
        {
            std::printf("    %s\n", error.what());
        }
    }
};

struct Act
{
    const char *name;
    std::function<void(const Scene &)> perform;
};

void
change_route(const Scene &scene)
{
    const std::string type = "'" + scene.type(scene.any_kind()) + "'";
    const std::string topic = scene.topic(scene.up_to(1) == 0 ? "other" : scene.any_kind());
    scene.operate(scene.up_to(2) == 0
                      ? "delete from outbox.routes where aggregate_type = " + type
                      : "insert into outbox.routes (aggregate_type, topic) values (" + type +
                            ", '" + topic +
                            "') on conflict (aggregate_type, event_type) do update set " +
                            "topic = excluded.topic");
}

void
restart_with_bad_template(const Scene &scene)
{
    scene.server.configure("outbox.topic_template", "{no_such_field}");
    scene.server.restart(scene.up_to(1) == 0 ? Shutdown::kFast : Shutdown::kImmediate);
    scene.wait_up_to(2000);
    scene.server.configure("outbox.topic_template", "outbox.event.{aggregate_type}");
    scene.server.reload();
}

void
take_kafka_away(const Scene &scene, bool orderly)
{
    if (orderly)
        kafka().stop();
    else
        kafka().kill9();
    scene.wait_up_to(4000);
    kafka().start();
}

const Act kActs[] = {
    {"route", change_route},
    {"route", change_route},
    {"route", change_route},
    {"strict", [](const Scene &scene)
     { scene.set_topic("strict", "min.insync.replicas", scene.up_to(2) == 0 ? 1 : 2); }},
    {"strict",
     [](const Scene &scene)
     {
         scene.set_topic("strict", "min.insync.replicas", 2);
         scene.wait_up_to(2500);
         scene.set_topic("strict", "min.insync.replicas", 1);
     }},
    {"small", [](const Scene &scene)
     { scene.set_topic("small", "max.message.bytes", scene.up_to(1) == 0 ? kSmall : 1000000); }},
    {"held", [](const Scene &scene)
     { scene.hold("select * from outbox.deliveries order by random() limit 20 for update"); }},
    {"held", [](const Scene &scene) { scene.hold("select * from outbox.deliveries for update"); }},
    {"lock",
     [](const Scene &scene)
     {
         constexpr const char *kTables[] = {"deliveries", "relay_position", "routes", "events"};
         scene.hold(std::string("lock table outbox.") + kTables[scene.up_to(3)] +
                    " in access exclusive mode");
     }},
    {"retry", [](const Scene &scene)
     { scene.operate("select count(outbox.retry(event_id)) from outbox.deliveries"); }},
    {"pause",
     [](const Scene &scene)
     {
         scene.operate("select outbox.pause()");
         scene.wait_up_to(1500);
         scene.operate("select outbox.resume()");
     }},
    {"reload", [](const Scene &scene) { scene.server.reload(); }},
    {"term", [](const Scene &scene)
     { scene.operate("select pg_terminate_backend(pid) from outbox.relay_status"); }},
    {"termall",
     [](const Scene &scene)
     {
         scene.operate("select count(pg_terminate_backend(pid)) from pg_stat_activity where "
                       "pid <> pg_backend_pid() and (datname = current_database() or "
                       "backend_type like 'outbox%')");
     }},
    {"cancelall",
     [](const Scene &scene)
     {
         scene.operate("select count(pg_cancel_backend(pid)) from pg_stat_activity where "
                       "pid <> pg_backend_pid() and (datname = current_database() or "
                       "backend_type like 'outbox%')");
     }},
    {"kill", [](const Scene &scene) { strike(Victim::kRelay, scene.server, scene.database); }},
    {"crash",
     [](const Scene &scene) { strike(Victim::kEverything, scene.server, scene.database); }},
    {"fast", [](const Scene &scene) { scene.server.restart(); }},
    {"template", restart_with_bad_template},
    {"kafkaterm", [](const Scene &scene) { take_kafka_away(scene, true); }},
    {"kafkakill", [](const Scene &scene) { take_kafka_away(scene, false); }},
    {"kafkapause",
     [](const Scene &scene)
     {
         auto *real = dynamic_cast<RealKafka *>(&kafka());
         real->process(0).pause();
         scene.wait_up_to(5000);
         real->process(0).resume();
     }},
};

// Changes a key's row and emits, one to four events of any kinds in a transaction.
void
emit_some(Db &db, const Scene &scene, std::mt19937 &random)
{
    const auto choose = [&](int count)
    { return std::uniform_int_distribution<int>(0, count - 1)(random); };
    const std::string key = std::to_string(1 + choose(kKeys));
    db.exec("begin");
    db.exec("update keys set n = n + 1 where id = $1::int", key);
    for (int i = choose(4); i >= 0; --i)
        db.exec("select outbox.emit($1, $2, 'changed', jsonb_build_object('pad', repeat('x', "
                "$3::int)))",
                scene.type(kKinds[choose(3)]), key, choose(20) == 0 ? 2 * kSmall : choose(100));
    db.exec(choose(8) == 0 ? "rollback" : "commit");
}

void
emit_until(const std::atomic<bool> &stopping, const Scene &scene, unsigned seed)
{
    std::mt19937 random(seed);
    while (!stopping)
    {
        try
        {
            Db db = scene.database.connect();
            while (!stopping)
                emit_some(db, scene, random);
        }
        catch (const SqlError &)
        {
            // it was ended, or cancelled: the next one goes on
        }
    }
}

bool
is_wanted(const Act &act)
{
    const char *wanted = std::getenv("OUTBOX_CHAOS");
    return wanted == nullptr || *wanted == '\0' ||
           ("," + std::string(wanted) + ",").find("," + std::string(act.name) + ",") !=
               std::string::npos;
}

void
put_right(const Scene &scene)
{
    scene.set_topic("strict", "min.insync.replicas", 1);
    scene.set_topic("small", "max.message.bytes", 1000000);
    scene.operate("select outbox.resume()");
}

std::string
what_is_left(Db &db)
{
    std::string left = db.value("select s::text from outbox.relay_status s");
    for (const char *sql :
         {"select count(*) || ' ' || d.state || ' ' || d.topic || ' ' || d.blocking || ' ' || "
          "coalesce(d.last_error, '') || ' next ' || coalesce(min(d.next_attempt_at)::text, '') "
          "from outbox.deliveries d group by d.state, d.topic, d.blocking, d.last_error",
          "select r::text from outbox.routes r", "select a::text from pg_stat_activity a"})
        for (const std::string &line : db.column(sql))
            left += "\n" + line;
    return left;
}

FirstCopies
run_lap(OwnCluster &server, std::mt19937 &random, Clock::time_point end)
{
    TestDatabase database(server);
    std::vector<std::string> topics;
    for (const char *kind : {"plain", "strict", "small", "other"})
    {
        topics.push_back(kTopicPrefix + database.name() + "_" + kind);
        kafka().create_topic(topics.back());
    }
    Consumer consumer(kafka().bootstrap(), topics);
    std::vector<std::thread> holders;
    const Scene scene = {server, database, consumer, random, holders};
    database.connect().exec("create table keys (id int primary key, n int not null default 0);"
                            "insert into keys (id) select generate_series(1, " +
                            std::to_string(kKeys) + ")");
    std::atomic<bool> stopping{false};
    std::vector<std::thread> clients;
    for (int i = 0; i < 4; ++i)
        clients.emplace_back([&, seed = static_cast<unsigned>(random())]
                             { emit_until(stopping, scene, seed); });
    std::vector<const Act *> acts;
    for (const Act &act : kActs)
        if (is_wanted(act))
            acts.push_back(&act);
    const auto began = Clock::now();
    while (Clock::now() < end)
    {
        const Act &act = *acts[static_cast<size_t>(scene.up_to(static_cast<int>(acts.size()) - 1))];
        std::printf("  %lld %.3f %s\n",
                    static_cast<long long>(std::chrono::system_clock::now().time_since_epoch() /
                                           std::chrono::milliseconds(1)),
                    std::chrono::duration<double>(Clock::now() - began).count(), act.name);
        act.perform(scene);
        scene.wait_up_to(scene.up_to(3) == 0 ? 3000 : 500);
    }
    stopping = true;
    for (std::thread &client : clients)
        client.join();
    for (std::thread &holder : holders)
        holder.join();
    put_right(scene);
    Db db = database.connect();
    EXPECT_EQ(db.value("select outbox.drain('50 s')"), "t") << what_is_left(db);
    return judge_first_copies(db, consumer);
}

void
wreak_chaos()
{
    const double minutes = std::stod(std::getenv("OUTBOX_SOAK_MINUTES"));
    const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double, std::ratio<60>>(minutes));
    kafka();
    Settings settings = kFaultSettings;
    settings["outbox.max_attempts"] = "1000";
    OwnCluster server(settings);
    server.expect_kill();
    std::mt19937 random(choose_seed());
    while (Clock::now() < end && !testing::Test::HasFailure())
    {
        const FirstCopies found = run_lap(server, random, std::min(end, Clock::now() + kLap));
        std::printf(
            "chaos: %zu events, %zu records, %zu of them repeats in another topic, %zu lost, "
            "%zu invented, %zu misordered\n",
            found.events, found.records, found.elsewhere, found.lost, found.invented,
            found.misordered);
        std::fflush(stdout);
        EXPECT_TRUE(found.good());
    }
}

[[maybe_unused]] const bool there_is_one = []
{
    if (std::getenv("OUTBOX_SOAK_MINUTES") == nullptr)
        return false;
    testing::RegisterTest("Soak", "WhatOperatorsAndFaultsDoTogetherLosesAndReordersNothing",
                          nullptr, nullptr, __FILE__, __LINE__,
                          []() -> testing::Test * { return new BodyTest(wreak_chaos); });
    return true;
}();

} // namespace
