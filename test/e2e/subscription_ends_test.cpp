// What open transactions, copies, dumps and ended processes leave of subscriptions.
#include <sstream>
#include <unistd.h>

#include "subscription_scene.h"

using namespace outbox::test;

namespace
{

// Processor time that the relays of subscriptions have taken, in seconds.
double
processor_time(Scene &scene)
{
    double ticks = 0;
    for (const std::string &pid :
         scene.db.column("select pid from outbox.subscription_status where pid is not null"))
    {
        const std::string stat = read_file("/proc/" + pid + "/stat");
        std::istringstream fields(stat.substr(stat.rfind(')') + 2));
        std::string field;
        for (int i = 3; i <= 15 && fields >> field; ++i)
            ticks += i >= 14 ? std::stod(field) : 0;
    }
    return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

// Whether the ring says so while events are emitted.
bool
comes_to_say(Scene &scene, const std::string &reason)
{
    return wait_until(kLimit,
                      [&]
                      {
                          (void) scene.emit();
                          return number(scene.db, "select count(*) from outbox.maintenance_status "
                                                  "where held_back_by like '" +
                                                      reason + "'") > 0;
                      });
}

long
truncations(Scene &scene)
{
    return number(scene.db, "select sum(done_total) from outbox.maintenance_status "
                            "where task = 'truncation'");
}

} // namespace

// An open creation keeps what it may begin with, and is named; an open change stops nothing.
TEST(SubscriptionEnds, OpenTransactionsThatChangeOneAreNamedWhereTheRingWaits)
{
    OwnCluster server(Settings{{"outbox.retention", "1s"}});
    Scene scene(server);
    scene.create("there");
    Db open = scene.database.connect();
    open.exec("begin");
    open.exec("select outbox.create_subscription('opened', 'kafka', " +
              Scene::options("opened", kafka().bootstrap()) + ")");
    EXPECT_TRUE(comes_to_say(scene, "a lock of process " + open.value("select pg_backend_pid()") +
                                        " on outbox.subscriptions"))
        << scene.db.value("select string_agg(s::text, E'\\n') from outbox.maintenance_status s");
    open.exec("rollback; begin");
    open.exec("select outbox.alter_subscription('there', " +
              Scene::options("there", kafka().bootstrap()) + ")");
    const long before = truncations(scene);
    EXPECT_TRUE(wait_until(kLimit,
                           [&]
                           {
                               (void) scene.emit();
                               return truncations(scene) > before + 2;
                           }));
    open.exec("rollback");
    open.exec("begin; select outbox.drop_subscription('there')");
    EXPECT_TRUE(comes_to_say(scene, "events that subscription there has not passed"));
    open.exec("rollback");
    EXPECT_EQ(scene.db.value("select outbox.drain('30 s')"), "t") << scene.describe();
}

// What has no relay says why, and no longer than that is so.
TEST(SubscriptionEnds, OneWithoutARelaySaysWhatItWaitsFor)
{
    OwnCluster server(Settings{{"max_prepared_transactions", "5"}});
    Scene scene(server);
    scene.create("changed");
    ASSERT_TRUE(scene.becomes("changed", "running"));
    const auto comes_to_say = [&](const std::string &part)
    {
        return wait_until(kLimit,
                          [&] {
                              return scene.of("coalesce(last_error, '')", "changed").find(part) !=
                                     std::string::npos;
                          });
    };
    for (const std::string change :
         {"alter_subscription('changed', null, null)", "drop_subscription('changed')"})
        for (const bool prepared : {false, true})
        {
            Db open = scene.database.connect();
            open.exec("begin");
            open.exec("select outbox." + change);
            if (prepared)
                open.exec("prepare transaction 'change'");
            EXPECT_TRUE(comes_to_say("has not ended")) << scene.describe();
            open.exec(prepared ? "rollback prepared 'change'" : "rollback");
            EXPECT_TRUE(scene.becomes("changed", "running")) << scene.describe();
            EXPECT_EQ(scene.of("coalesce(last_error, 'none')", "changed"), "none");
        }
    // Without a relay of default there is none of another one.
    server.configure("max_worker_processes", "1");
    server.restart();
    scene.db = scene.database.connect();
    EXPECT_TRUE(comes_to_say("outbox.relay_status")) << scene.describe();
    EXPECT_EQ(scene.of("state", "changed"), "absent");
}

// The worker of a relay that was ended is not taken by a subscription that waits for one: that
// would keep it until the server restarts.
TEST(SubscriptionEnds, OnesThatWaitForAWorkerTakeNoneFromARelayThatComesBack)
{
    OwnCluster server(
        Settings{{"max_worker_processes", "4"}, {"max_logical_replication_workers", "0"}});
    Scene scene(server);
    for (const char *name : {"one", "two", "three"})
        scene.create(name);
    const auto count = [&](const char *state)
    {
        return number(scene.db, std::string("select count(*) from outbox.subscription_status "
                                            "where name <> 'default' and state = '") +
                                    state + "'");
    };
    ASSERT_TRUE(wait_until(kLimit, [&] { return count("running") == 2; })) << scene.describe();
    const std::string names = "select coalesce(string_agg(name, ' ' order by name), '') "
                              "from outbox.subscription_status where state = 'running'";
    const std::string before = scene.db.value(names);
    for (int round = 0; round < 3; round++)
        for (const char *whose : {"outbox.relay_status", "outbox.subscription_status"})
        {
            const std::string id = scene.emit();
            EXPECT_EQ(scene.db.value("select outbox.wait_published($1, '20 s')", id), "t");
            scene.db.exec(std::string("select pg_terminate_backend(pid) from ") + whose);
            EXPECT_TRUE(wait_until(kLimit, [&] { return scene.db.value(names) == before; }))
                << scene.describe() << scene.db.value(names);
            EXPECT_TRUE(scene.database.reaches_state("running"));
        }
}

// An operator who has said what to do does not wait for the minute after which a relay looks again.
TEST(SubscriptionEnds, OnesThatWereStoppedContinueAtOnceWhenTheyAreAskedTo)
{
    constexpr auto kAtOnce = std::chrono::seconds(15);
    OwnCluster server;
    Scene scene(server);
    scene.create("one");
    scene.create("two");
    const auto both_become = [&](const std::string &state)
    { return scene.becomes("one", state) && scene.becomes("two", state); };
    const auto are_back = [&]
    {
        return wait_until(kAtOnce,
                          [&] {
                              return scene.of("state", "one") == "running" &&
                                     scene.of("state", "two") == "running";
                          });
    };
    ASSERT_TRUE(both_become("running")) << scene.describe();
    scene.db.exec("update outbox.relay_position set written_by = pg_current_xact_id(), "
                  "data_directory = outbox.data_directory() # 1 where subscription <> 'default'");
    scene.db.exec("select pg_terminate_backend(pid) from outbox.subscription_status");
    ASSERT_TRUE(both_become("stopped")) << scene.describe();
    scene.db.exec("select outbox.adopt_position('one'); select outbox.adopt_position('two')");
    EXPECT_TRUE(are_back()) << scene.describe();

    scene.db.exec("update pg_extension set extversion = '0.0' where extname = 'outbox'");
    ASSERT_TRUE(both_become("update_required")) << scene.describe();
    scene.db.exec("update pg_extension set extversion = outbox.version() where extname = 'outbox'; "
                  "select outbox.request_relay()"); // as an update does at its end
    EXPECT_TRUE(are_back()) << scene.describe();
    const std::string id = scene.emit();
    EXPECT_EQ(scene.sent("one", 1), Ids{id});
    EXPECT_EQ(scene.sent("two", 1), Ids{id});
}

TEST(SubscriptionEnds, LauncherAndRelaysThatAreTerminatedTogetherStartAgain)
{
    OwnCluster server;
    Scene scene(server);
    scene.create("one");
    scene.create("two");
    EXPECT_TRUE(scene.becomes("one", "running") && scene.becomes("two", "running"));
    const std::string first = pid_of(scene, "one");
    EXPECT_EQ(scene.db.value("select count(pg_terminate_backend(pid)) from pg_stat_activity "
                             "where backend_type like 'outbox%'"),
              "4");
    EXPECT_TRUE(wait_until(kLimit,
                           [&]
                           {
                               const std::string now = pid_of(scene, "one");
                               return now != "0" && now != first;
                           }));
    const std::string id = scene.emit();
    EXPECT_EQ(scene.sent("one", 1), Ids{id});
    EXPECT_EQ(scene.sent("two", 1), Ids{id});
}

// A copy of the database has none, says of no event that one of them has published it, and does not
// send to where they did.
TEST(SubscriptionEnds, ACopyOfTheDatabaseSendsNothingToTheirPlaces)
{
    OwnCluster server;
    Scene scene(server);
    scene.create("original");
    const std::string id = scene.emit();
    EXPECT_EQ(scene.sent("original", 1), Ids{id});
    scene.db.exec("select outbox.pause('test', 'original')");
    ASSERT_TRUE(scene.becomes("original", "paused"));
    (void) scene.emit();
    const std::string copy = scene.database.name() + "_copy";
    scene.db = Db(server, "postgres"); // nobody is in the template
    Db admin(server, "postgres");
    admin.exec("create database " + copy + " template " + scene.database.name());
    Db db(server, copy);
    EXPECT_EQ(db.value("select count(*) from outbox.delivery_status "
                       "where subscription = 'original' and status = 'PUBLISHED'"),
              "0");
    EXPECT_TRUE(wait_until(
        kLimit, [&] { return db.value("select state from outbox.relay_status") == "running"; }));
    for (int i = 0; i < 20; ++i)
        (void) Scene::emit(db, scene.database.type());
    EXPECT_EQ(db.value("select outbox.drain('20 s')"), "t");
    EXPECT_EQ(db.value("select (select count(*) from outbox.subscriptions) + "
                       "(select count(*) from outbox.subscription_history) + "
                       "(select count(*) from outbox.pauses)"),
              "0");
    EXPECT_EQ(db.value("select count(distinct subscription) from outbox.delivery_status"), "1");
    EXPECT_EQ(scene.sent("original", 1), Ids{id});
    db = Db(server, "postgres");
    admin.exec("drop database " + copy);
}

// With the extension goes what asked for it, at once.
TEST(SubscriptionEnds, NothingOfAnExtensionThatIsCreatedAgainIsSentToTheirPlaces)
{
    OwnCluster server;
    Scene scene(server);
    scene.create("former");
    const std::string id = scene.emit();
    EXPECT_EQ(scene.sent("former", 1), Ids{id});
    scene.db.exec("drop extension outbox; create extension outbox");
    const std::string next = scene.emit();
    EXPECT_EQ(scene.db.value("select outbox.wait_published($1, '20 s')", next), "t");
    EXPECT_TRUE(wait_until(kLimit,
                           [&]
                           {
                               return scene.db.value("select count(*) from pg_stat_activity where "
                                                     "application_name like 'outbox relay %'") ==
                                      "0";
                           }));
    EXPECT_EQ(scene.sent("former", 1), Ids{id});
}

// A dump takes none of them: a restored copy sends nothing to their places. What of events it says
// is what `default` had published.
TEST(SubscriptionEnds, ADumpHasNoneAndIsRightAboutWhatWasPublished)
{
    if (!PgCluster::can_dump())
        GTEST_SKIP() << kCannotDump;
    OwnCluster server;
    Scene scene(server);
    scene.create("dumped");
    scene.create("dead", "", "127.0.0.1:1");
    const std::string published = scene.emit();
    EXPECT_EQ(scene.sent("dumped", 1), Ids{published});
    EXPECT_EQ(scene.db.value("select outbox.drain('20 s', 'default')"), "t");
    scene.db.exec("insert into outbox.deliveries (seq, xid, slot, event_id, lane, topic, "
                  "partition_key, state, blocking, attempts, subscription) select e.seq, e.xid, "
                  "e.slot, e.id, 1, 't', 'k', 'FAILED', true, 3, 'dead' from outbox.events e");
    scene.db.exec("select outbox.pause('test')");
    EXPECT_TRUE(scene.database.reaches_state("paused"));
    const std::string waiting = scene.emit(); // `default` has not published it, `dumped` has
    EXPECT_EQ(scene.sent("dumped", 2), (Ids{published, waiting}));
    const std::string name = scene.database.name() + "_restored";
    Db admin(server, "postgres");
    admin.exec("create database " + name);
    Db db(server, name);
    const std::string file = run_dir() / unique_name("dump.");
    EXPECT_EQ(run_or_throw(
                  Command({PgCluster::dump_program("pg_dump"), "--format=custom", "--file=" + file,
                           "--dbname=" + server.conninfo(scene.database.name())})),
              "");
    run_or_throw(Command({PgCluster::dump_program("pg_restore"), "--exit-on-error",
                          "--dbname=" + server.conninfo(name), file}));
    EXPECT_EQ(db.value("select (select count(*) from outbox.subscriptions) + "
                       "(select count(*) from outbox.subscription_history) + "
                       "(select count(*) from outbox.deliveries)"),
              "0");
    const auto status = [&](const std::string &id)
    { return db.value("select status from outbox.event_deliveries($1)", id); };
    EXPECT_NE(status(waiting), "PUBLISHED");
    EXPECT_TRUE(wait_until(kLimit, [&] { return status(published) == "PUBLISHED"; }));
    EXPECT_EQ(db.value("select outbox.resume()"), "t");
    EXPECT_EQ(db.value("select outbox.wait_published($1, '20 s')", waiting), "t");
    EXPECT_EQ(scene.sent("", 2), (Ids{published, waiting}));
    EXPECT_EQ(scene.sent("dumped", 2), (Ids{published, waiting}));
    db = Db(server, "postgres");
    admin.exec("drop database " + name);
}

// Who may see the state of one sees no value of its configuration.
TEST(SubscriptionEnds, AConfigurationThatIsNotUsableIsShownWithoutItsSecrets)
{
    OwnCluster server;
    Scene scene(server);
    const auto file = run_dir() / "subscription.conf";
    write_file(file, "security.protocol=sasl_plaintext\nsasl.mechanism=PLAIN\n"
                     "sasl.username=me\nsasl.password=hunter2\nno.such.property=hunter3\n");
    give_to_server_user(file);
    scene.db.exec("select outbox.create_subscription('secret', 'kafka', jsonb_build_object("
                  "'bootstrap_servers', '127.0.0.1:1', 'kafka_config_file', $1::text))",
                  file.string());
    EXPECT_TRUE(scene.becomes("secret", "config_error")) << scene.describe();
    EXPECT_EQ(scene.describe().find("hunter"), std::string::npos) << scene.describe();
    EXPECT_EQ(server.log_text().find("hunter"), std::string::npos);
    EXPECT_THROW(scene.db.exec("select outbox.create_subscription('other', 'kafka', "
                               "'{\"bootstrap_servers\": \"127.0.0.1:1\", "
                               "\"kafka_config\": \"sasl.password=hunter4\"}')"),
                 SqlError);
}

TEST(SubscriptionEnds, OnesThatHaveNothingToDoWriteNoWal)
{
    OwnCluster server(Settings{{"autovacuum", "off"}, {"max_worker_processes", "40"}});
    Scene scene(server);
    for (int i = 0; i < 16; ++i)
        scene.create("idle" + std::to_string(i));
    EXPECT_THROW(scene.create("one_more"), SqlError);
    (void) scene.emit();
    ASSERT_EQ(scene.db.value("select outbox.drain('60 s')"), "t") << scene.describe();
    EXPECT_TRUE(wait_until(std::chrono::seconds(60),
                           [&]
                           {
                               const std::string before =
                                   scene.db.value("select pg_current_wal_insert_lsn()");
                               scene.db.exec("select pg_sleep(5)");
                               return scene.db.value("select pg_current_wal_insert_lsn()") ==
                                      before;
                           }));
    const double before = processor_time(scene);
    scene.db.exec("select pg_sleep(20)");
    const double share = (processor_time(scene) - before) / 20;
    RecordProperty("share_of_a_core", std::to_string(share));
    EXPECT_LT(share, 0.04) << "of a core, all 16 of them";
}
