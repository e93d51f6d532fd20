// What open transactions, copies, dumps and ended processes leave of subscriptions.
#include "subscription_scene.h"

using namespace outbox::test;

namespace
{

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
}
