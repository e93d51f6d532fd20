// Subscriptions that a superuser detaches and attaches again, `default` among them.
#include <atomic>
#include <thread>

#include "subscription_scene.h"

using namespace outbox::test;

namespace
{

std::set<std::string>
as_set(const Ids &ids)
{
    return {ids.begin(), ids.end()};
}

std::set<std::string>
with_status(Scene &scene, const std::string &status)
{
    return as_set(
        scene.db.column("select id from outbox.event_status where status = '" + status + "'"));
}

// Whether the position of `default` comes to have passed all that there is.
bool
passes_all(Scene &scene)
{
    return wait_until(kLimit,
                      [&]
                      {
                          return scene.db.value("select count(*) from outbox.events e, "
                                                "outbox.current_position p where not "
                                                "outbox.visible_in(e.xid, p.from_snapshot)") == "0";
                      });
}

} // namespace

TEST(SubscriptionDetach, OneSendsNothingUntilItIsAttachedAndThenWhatIsKept)
{
    Scene scene(cluster());
    scene.create("other");
    const std::string before = scene.emit();
    EXPECT_EQ(scene.sent("other", 1), Ids{before});
    EXPECT_EQ(scene.db.value("select outbox.drain('20 s')"), "t");
    EXPECT_EQ(scene.db.value("select outbox.detach_subscription('other')"), "0");
    Ids meanwhile;
    for (int i = 0; i < 20; i++)
        meanwhile.push_back(scene.emit());
    EXPECT_EQ(scene.db.value("select outbox.drain('20 s')"), "t") << "of those that are attached";
    EXPECT_EQ(scene.of("state", "other"), "detached");
    EXPECT_TRUE(wait_until(kLimit, [&] { return pid_of(scene, "other") == "0"; }));
    EXPECT_NE(scene.of("last_error", "other").find("detached by "), std::string::npos);
    EXPECT_EQ(scene.db.value("select count(*) from outbox.delivery_status "
                             "where subscription = 'other' and status = 'MISSED'"),
              "20");
    EXPECT_EQ(scene.sent("other", 1), Ids{before});

    scene.db.exec("select outbox.attach_subscription('other', 'retained')");
    Ids all{before};
    all.insert(all.end(), meanwhile.begin(), meanwhile.end());
    EXPECT_EQ(scene.sent("other", all.size()), all);
    EXPECT_EQ(scene.of("detached_at is null", "other"), "t");

    EXPECT_EQ(scene.db.value("select outbox.drain('20 s')"), "t");
    scene.db.exec("select outbox.detach_subscription('other')");
    (void) scene.emit();
    scene.db.exec("select outbox.attach_subscription('other', 'now')");
    EXPECT_EQ(scene.of("missed_events", "other"), "1");
    all.push_back(scene.emit());
    EXPECT_EQ(scene.sent("other", all.size()), all);
}

// Whatever commits meanwhile: what is said to be published has arrived, and what is said to be
// missed has not, but for what was on its way when it was detached.
TEST(SubscriptionDetach, DefaultSendsExactlyWhatCommitsWhileItIsAttached)
{
    Scene scene(cluster());
    std::atomic<bool> stopping{false};
    std::vector<std::thread> clients;
    for (int client = 0; client < 4; client++)
        clients.emplace_back(
            [&, client]
            {
                Db db = scene.database.connect();
                for (int i = 0; !stopping; i++)
                {
                    db.exec("begin");
                    for (int n = 0; n < 1 + i % 3; n++)
                        (void) Scene::emit(db, scene.database.type(), "made",
                                           std::to_string(client));
                    if (i % 7 == client)
                        std::this_thread::sleep_for(Milliseconds(5));
                    db.exec(i % 5 == 0 ? "rollback" : "commit");
                }
            });
    const auto passes = [&](int more)
    {
        const long wanted = number(scene.db, "select count(*) from outbox.events") + more;
        EXPECT_TRUE(wait_until(
            kLimit,
            [&] { return number(scene.db, "select count(*) from outbox.events") >= wanted; }));
    };
    for (int round = 0; round < 8; round++)
    {
        passes(30);
        scene.db.exec("select outbox.detach_subscription('default')");
        passes(30);
        scene.db.exec("select outbox.attach_subscription('default', 'now')");
        EXPECT_EQ(scene.db.value("select outbox.wait_published($1, '30 s')", scene.emit()), "t");
    }
    passes(30);
    stopping = true;
    for (std::thread &client : clients)
        client.join();
    const std::string last = scene.emit();
    EXPECT_EQ(scene.db.value("select outbox.drain('30 s')"), "t");
    EXPECT_EQ(scene.db.value("select outbox.wait_published($1, '30 s')", last), "t");
    EXPECT_EQ(with_status(scene, "NEW").size(), 0U);

    const std::set<std::string> published = with_status(scene, "PUBLISHED");
    const std::set<std::string> missed = with_status(scene, "MISSED");
    EXPECT_GT(published.size(), 100U);
    EXPECT_GT(missed.size(), 100U);
    const std::set<std::string> arrived = as_set(scene.sent("", published.size()));
    for (const std::string &id : published)
        EXPECT_EQ(arrived.count(id), 1U) << id;
    size_t arrived_all_the_same = 0;
    for (const std::string &id : missed)
        arrived_all_the_same += arrived.count(id);
    EXPECT_LT(arrived_all_the_same, missed.size() / 4);
    std::cout << published.size() << " published, " << missed.size() << " missed, of these "
              << arrived_all_the_same << " were on their way\n";
}

// No relay reads anything before it knows how the transaction ends.
TEST(SubscriptionDetach, TheRelayOfDefaultWaitsForTheTransaction)
{
    Scene scene(cluster());
    scene.db.exec("select outbox.detach_subscription('default')");
    ASSERT_TRUE(scene.database.reaches_state("detached"));
    Db other = scene.database.connect();
    const auto emitted_meanwhile = [&](const char *call, const char *end)
    {
        scene.db.exec(std::string("begin; select ") + call);
        EXPECT_TRUE(scene.database.reaches_state("waiting_lock"));
        const std::string id = Scene::emit(other, scene.database.type());
        scene.db.exec(end);
        return id;
    };
    const std::string none =
        emitted_meanwhile("outbox.attach_subscription('default', 'now')", "rollback");
    const std::string first =
        emitted_meanwhile("outbox.attach_subscription('default', 'now')", "commit");
    EXPECT_EQ(scene.sent("", 1), Ids{first});
    const std::string second =
        emitted_meanwhile("outbox.detach_subscription('default')", "rollback");
    EXPECT_EQ(scene.sent("", 2), (Ids{first, second}));
    EXPECT_EQ(scene.db.value("select outbox.drain('20 s')"), "t");
    const std::string third = emitted_meanwhile("outbox.detach_subscription('default')", "commit");
    ASSERT_TRUE(scene.database.reaches_state("detached"));
    EXPECT_EQ(scene.sent("", 2), (Ids{first, second}));
    EXPECT_EQ(with_status(scene, "MISSED"), (std::set<std::string>{none, third}));
}

TEST(SubscriptionDetach, DefaultPassesAllWithoutAKafkaAndHoldsNothingBack)
{
    NoKafka no;
    Scene &scene = no.scene;
    ASSERT_TRUE(scene.database.reaches_state("not_configured"));
    for (int i = 0; i < 50; i++)
        (void) scene.emit();
    // As its Kafka had refused them, once.
    scene.db.exec(
        "insert into outbox.deliveries (seq, xid, slot, event_id, lane, topic, partition_key, "
        "state, blocking, attempts, failed_at, last_error) "
        "select e.seq, e.xid, e.slot, e.id, 1, 't', 'k', "
        "(array['RETRYING', 'WAITING', 'FAILED'])[1 + row_number() over (order by e.seq) % 3], "
        "true, 1, now(), 'REFUSED: refused' from outbox.events e order by e.seq limit 9");
    EXPECT_EQ(scene.db.value("select outbox.drain('100 ms')"), "f");
    EXPECT_EQ(scene.db.value("select outbox.detach_subscription('default')"), "50");
    EXPECT_TRUE(no.server.log_contains("has not sent 50 events"));
    ASSERT_TRUE(scene.database.reaches_state("detached"));
    EXPECT_EQ(scene.db.value("select outbox.drain('20 s')"), "t");
    EXPECT_TRUE(wait_until(std::chrono::seconds(60),
                           [&]
                           {
                               return scene.db.value(
                                          "select (select count(*) from outbox.events) + (select "
                                          "count(*) from outbox.deliveries)") == "0";
                           }))
        << scene.db.value("select string_agg(s::text, E'\\n') from outbox.maintenance_status s");
    EXPECT_EQ(scene.db.value("select backlog_events || ' ' || published_total || ' ' || "
                             "coalesce(config_error, 'none') from outbox.relay_status"),
              "0 0 none");
    // Whatever is set now, or is wrong, it needs none of it: settings of the database are taken up.
    const pid_t before = scene.database.relay_pid();
    no.server.configure("outbox.bootstrap_servers", "127.0.0.1:1");
    no.server.configure("outbox.kafka_config_file", "/no/such/file");
    scene.db.exec("alter database " + scene.database.name() + " set outbox.lag_warning = '1h'");
    no.server.reload();
    EXPECT_TRUE(wait_until(kLimit, [&] { return scene.database.relay_pid() != before; }));
    EXPECT_TRUE(scene.database.reaches_state("detached"));
    (void) scene.emit();
    EXPECT_TRUE(passes_all(scene));
    EXPECT_EQ(scene.db.value("select state || coalesce(config_error, '') from outbox.relay_status"),
              "detached");
}

TEST(SubscriptionDetach, DefaultIsDetachedRightAfterTheExtensionIsCreated)
{
    OwnCluster server(Settings{{"outbox.bootstrap_servers", ""}});
    TestDatabase database(server, TestDatabase::Extension::kNotInstalled);
    Db db = database.connect();
    db.exec("begin; create extension outbox");
    EXPECT_EQ(db.value("select outbox.detach_subscription('default')"), "0");
    db.exec("commit");
    ASSERT_TRUE(database.reaches_state("detached"));
    (void) Scene::emit(db, database.type());
    EXPECT_EQ(db.value("select outbox.drain('20 s')"), "t");
    EXPECT_EQ(db.value("select status from outbox.event_status"), "MISSED");
}

// A setting that is blank by mistake detaches nothing.
TEST(SubscriptionDetach, ABlankSettingAloneLosesNothing)
{
    OwnCluster server;
    Scene scene(server);
    const std::string first = scene.emit();
    EXPECT_EQ(scene.sent("", 1), Ids{first});
    server.configure("outbox.bootstrap_servers", "");
    server.reload();
    ASSERT_TRUE(scene.database.reaches_state("not_configured"));
    const std::string second = scene.emit();
    EXPECT_EQ(scene.db.value("select outbox.drain('300 ms')"), "f");
    server.configure("outbox.bootstrap_servers", kafka().bootstrap());
    server.reload();
    EXPECT_EQ(scene.sent("", 2), (Ids{first, second}));
}

// Nobody has said that the copy is to lose anything: there it is attached, and sends what commits.
TEST(SubscriptionDetach, DefaultIsAttachedInACopyAndInARestoredDump)
{
    if (!PgCluster::can_dump())
        GTEST_SKIP() << kCannotDump;
    OwnCluster server;
    Scene scene(server);
    ASSERT_TRUE(scene.database.reaches_state("running"));
    scene.db.exec("select outbox.detach_subscription('default')");
    Ids missed;
    for (int i = 0; i < 20; i++)
        missed.push_back(scene.emit());
    EXPECT_EQ(scene.db.value("select outbox.drain('20 s')"), "t");
    ASSERT_TRUE(scene.database.reaches_state("detached"));
    EXPECT_TRUE(passes_all(scene));
    const std::string name = scene.database.name();
    const std::string file = run_dir() / unique_name("dump.");
    run_or_throw(Command({PgCluster::dump_program("pg_dump"), "--format=custom", "--file=" + file,
                          "--dbname=" + server.conninfo(name)}));
    scene.db = Db(server, "postgres");
    scene.db.exec("create database copied template " + name);
    scene.db.exec("create database restored");
    scene.db = scene.database.connect();

    Db copied(server, "copied");
    const auto runs = [](Db &db)
    {
        return wait_until(
            kLimit, [&] { return db.value("select state from outbox.relay_status") == "running"; });
    };
    ASSERT_TRUE(runs(copied));
    const std::string of_copy = Scene::emit(copied, scene.database.type());
    EXPECT_EQ(copied.value("select outbox.wait_published($1, '20 s')", of_copy), "t");
    EXPECT_EQ(scene.sent("", 1), Ids{of_copy}) << "what was before is the original's";
    EXPECT_EQ(copied.value("select count(*) from outbox.event_status where status = 'MISSED'"),
              "20");
    EXPECT_EQ(copied.value("select count(*) from outbox.delivery_status where status = 'MISSED'"),
              "20");

    run_or_throw(Command({PgCluster::dump_program("pg_restore"), "--exit-on-error",
                          "--dbname=" + server.conninfo("restored"), file}));
    Db restored(server, "restored");
    ASSERT_TRUE(runs(restored));
    EXPECT_EQ(restored.value("select outbox.drain('20 s')"), "t");
    std::set<std::string> all = as_set(missed);
    all.insert(of_copy);
    EXPECT_EQ(as_set(scene.sent("", 21)), all);
    scene.emit();
    EXPECT_EQ(scene.db.value("select outbox.drain('20 s')"), "t");
    EXPECT_EQ(scene.db.value("select state from outbox.relay_status"), "detached");
    EXPECT_EQ(scene.sent("", 21).size(), 21U);
}

// Nor does the copy say that these were sent when its row of pg_database no longer shows its age.
TEST(SubscriptionDetach, WhatDefaultMissedStaysMissedInACopyOfUnknownAge)
{
    NoKafka no;
    Scene &scene = no.scene;
    scene.db.exec("select outbox.detach_subscription('default')");
    ASSERT_TRUE(scene.database.reaches_state("detached"));
    no.server.configure("outbox.retention", "1h");
    no.server.reload();
    (void) scene.emit();
    EXPECT_TRUE(passes_all(scene));
    const std::string name = scene.database.name();
    scene.db = Db(no.server, "postgres");
    scene.db.exec("create database copied template " + name + " allow_connections false");
    scene.db.exec("alter database copied allow_connections true");
    // A row that some snapshot could still see is left by VACUUM.
    ASSERT_TRUE(wait_until(kLimit,
                           [&]
                           {
                               return scene.db.value(
                                          "select not exists (select from pg_stat_activity a "
                                          "where a.pid <> pg_backend_pid() "
                                          "and (age(a.backend_xmin) >= age(d.xmin) "
                                          "or age(a.backend_xid) >= age(d.xmin))) "
                                          "from pg_database d where d.datname = 'copied'") == "t";
                           }));
    scene.db.exec("vacuum (disable_page_skipping, freeze) pg_database");
    Db copied(no.server, "copied");
    EXPECT_TRUE(wait_until(
        kLimit,
        [&] { return copied.value("select state from outbox.relay_status") == "not_configured"; }));
    EXPECT_EQ(copied.value("select status from outbox.event_status"), "MISSED");
    const std::string own = Scene::emit(copied, "t");
    EXPECT_EQ(copied.value("select status from outbox.event_status where id = $1", own), "NEW");
}

// A dump of a database that had a Kafka, in one whose `default` is detached: what it had set aside
// there holds nothing here.
TEST(SubscriptionDetach, WhatADumpHadSetAsideHoldsNothing)
{
    if (!PgCluster::can_dump())
        GTEST_SKIP() << kCannotDump;
    NoKafka no;
    Scene &scene = no.scene;
    ASSERT_TRUE(scene.database.reaches_state("not_configured"));
    for (int i = 0; i < 3; i++)
        (void) scene.emit();
    scene.db.exec(
        "insert into outbox.deliveries (seq, xid, slot, event_id, lane, topic, partition_key, "
        "state, blocking, attempts, failed_at, last_error) "
        "select e.seq, e.xid, e.slot, e.id, 1, 't', 'k', "
        "(array['RETRYING', 'WAITING', 'FAILED'])[row_number() over (order by e.seq)], true, 1, "
        "now(), 'REFUSED: refused' from outbox.events e order by e.seq limit 3");
    const std::string file = run_dir() / unique_name("dump.");
    run_or_throw(
        Command({PgCluster::dump_program("pg_dump"), "--format=custom", "--data-only",
                 "--file=" + file, "--dbname=" + no.server.conninfo(scene.database.name())}));
    TestDatabase target(no.server);
    Db db = target.connect();
    db.exec("select outbox.detach_subscription('default')");
    ASSERT_TRUE(target.reaches_state("detached"));
    run_or_throw(Command({PgCluster::dump_program("pg_restore"), "--exit-on-error", "--data-only",
                          "--dbname=" + no.server.conninfo(target.name()), file}));
    EXPECT_TRUE(wait_until(kLimit,
                           [&]
                           {
                               return db.column("select state || topic from outbox.deliveries") ==
                                      Ids{"DISCARDED", "DISCARDED", "DISCARDED"};
                           }))
        << db.value("select string_agg(d::text, E'\\n') from outbox.deliveries d");
    EXPECT_EQ(db.value("select outbox.drain('20 s')"), "t");
    EXPECT_TRUE(wait_until(std::chrono::seconds(60),
                           [&]
                           {
                               return db.value("select (select count(*) from outbox.events) + "
                                               "(select count(*) from outbox.deliveries)") == "0";
                           }))
        << db.value("select string_agg(s::text, E'\\n') from outbox.maintenance_status s");
}
