// What the relay leaves alone when there is nothing to do, or nothing wanted.
#include "servers.h"

using namespace outbox::test;

// Checkpoints and vacuums of the server's own end by themselves.
TEST(Idle, ARelayThatHasNothingToDoWritesNoWal)
{
    OwnCluster server(Settings{{"autovacuum", "off"}});
    TestDatabase database(server);
    kafka().create_topic(database.topic());
    Db db = database.connect();
    for (int i = 0; i < 3; ++i)
        db.exec("select outbox.emit($1, i::text, 'made', '{}') from generate_series(1, 500) i",
                database.type());
    db.exec("select outbox.mark_processed(gen_random_uuid(), 'consumer') "
            "from generate_series(1, 500)");
    ASSERT_EQ(db.value("select outbox.drain('30 s')"), "t");

    EXPECT_TRUE(wait_until(std::chrono::seconds(60),
                           [&]
                           {
                               const std::string before =
                                   db.value("select pg_current_wal_insert_lsn()");
                               db.exec("select pg_sleep(5)");
                               return db.value("select pg_current_wal_insert_lsn()") == before;
                           }));
}

TEST(Idle, WithoutARetentionEventsStay)
{
    OwnCluster server(Settings{{"outbox.retention", "0"}});
    TestDatabase database(server);
    kafka().create_topic(database.topic());
    Db db = database.connect();
    db.exec("select outbox.emit($1, 'k', 'made', '{}')", database.type());
    ASSERT_EQ(db.value("select outbox.drain('30 s')"), "t");
    db.exec("update outbox.ring set began_at = began_at - interval '10 years'");
    db.exec("update outbox.ticks set published_at = published_at - interval '10 years', "
            "written_by = pg_current_xact_id()");
    const char *kept = "select (select count(*) from outbox.events) || ' ' || "
                       "(select sum(turns) + sum(truncations) from outbox.ring)";
    db.exec("select pg_reload_conf()"); // the relay sees to the ring at once
    db.exec("select pg_sleep(2)");
    EXPECT_EQ(db.value(kept), "1 0");

    db.exec("alter system set outbox.retention = '2s'");
    db.exec("select pg_reload_conf()");
    EXPECT_TRUE(wait_until(std::chrono::seconds(30), [&] { return db.value(kept) == "0 2"; }))
        << db.value(kept);
}

TEST(Idle, ATableThatIsMissingIsNamed)
{
    TestDatabase database(cluster());
    Db db = database.connect();
    ASSERT_TRUE(database.reaches_state("running"));
    for (const char *table : {"pauses", "deliveries"})
    {
        const std::string name = table;
        db.exec("alter table outbox." + name + " rename to away");
        EXPECT_TRUE(database.reaches_state("stopped"));
        EXPECT_EQ(db.value("select last_error from outbox.relay_status")
                      .find("outbox." + name + " is missing"),
                  0U)
            << db.value("select last_error from outbox.relay_status");
        db.exec("alter table outbox.away rename to " + name);
        db.exec("select outbox.request_relay()");
        EXPECT_TRUE(database.reaches_state("running"));
    }
}
