// What keeps the relay from reading or writing its own tables: it waits, says for what, and repeats
// nothing.
#include <csignal>

#include "faults.h"

using namespace outbox::test;

namespace
{

struct Scene
{
    Scene() : database(cluster())
    {
        kafka().create_topic(database.topic());
        db = std::make_unique<Db>(database.connect());
        emit(10);
        EXPECT_EQ(db->value("select outbox.drain('20 s')"), "t");
        relay = database.relay_pid();
    }

    void emit(int count)
    {
        for (int i = 0; i < count; ++i)
            db->exec("select outbox.emit($1, $2, 'e', '{}')", database.type(),
                     "key-" + std::to_string(i % 3));
    }

    std::string last_error()
    {
        return db->value("select coalesce(last_error, '') from outbox.relay_status");
    }

    bool says(const std::string &text)
    {
        return wait_until(std::chrono::seconds(20),
                          [&] { return last_error().find(text) != std::string::npos; });
    }

    bool forgets(const std::string &text)
    {
        return wait_until(std::chrono::seconds(20),
                          [&] { return last_error().find(text) == std::string::npos; });
    }

    // Everything arrives, each event once, and the relay is still the same.
    void expect_each_once()
    {
        Consumer consumer(kafka().bootstrap(), {database.topic()});
        const Report report = check_delivery(*db, consumer);
        EXPECT_TRUE(report.exact()) << report.summary();
    }

    TestDatabase database;
    std::unique_ptr<Db> db;
    pid_t relay = 0;
};

} // namespace

TEST(Unwritable, ALockOnAnyOfItsTablesMakesTheRelayWaitAndSaySoAndRepeatNothing)
{
    for (const char *table : {"relay_position", "deliveries"})
    {
        SCOPED_TRACE(table);
        Scene scene;
        Db locker = scene.database.connect();
        locker.exec(std::string("begin; lock table outbox.") + table + " in share mode");
        scene.emit(30);
        EXPECT_TRUE(scene.database.reaches_state("waiting_lock"));
        EXPECT_TRUE(scene.says(std::string("waiting for a lock on outbox.") + table))
            << scene.last_error();
        // Longer than a lock_timeout.
        EXPECT_FALSE(wait_until(Milliseconds(2500),
                                [&] { return scene.database.relay_pid() != scene.relay; }));
        locker.exec("commit");
        EXPECT_EQ(scene.db->value("select outbox.drain('20 s')"), "t");
        EXPECT_TRUE(scene.database.reaches_state("running"));
        EXPECT_TRUE(scene.forgets("waiting for a lock")) << scene.last_error();
        EXPECT_EQ(scene.database.relay_pid(), scene.relay);
        scene.expect_each_once();
    }
}

TEST(Unwritable, ALockIsNamedWhileARelayStartsAndForgottenWhenItIsGone)
{
    Scene scene;
    for (const std::string table : {"routes"})
    {
        SCOPED_TRACE(table);
        const pid_t before = scene.database.relay_pid();
        Db locker = scene.database.connect();
        locker.exec("begin; lock table outbox." + table + " in access exclusive mode");
        ASSERT_EQ(kill(before, SIGTERM), 0);
        EXPECT_TRUE(scene.says("waiting for a lock on outbox." + table)) << scene.last_error();
        EXPECT_TRUE(scene.database.reaches_state("waiting_lock"));
        locker.exec("commit");
        EXPECT_EQ(scene.db->value("select outbox.drain('20 s')"), "t");
        EXPECT_TRUE(scene.database.reaches_state("running"));
        EXPECT_TRUE(scene.forgets("waiting for a lock")) << scene.last_error();
    }
    scene.expect_each_once();
}

TEST(Unwritable, ALockOnTheOthersHoldsNothingUp)
{
    Scene scene;
    Db locker = scene.database.connect();
    locker.exec("begin; lock table outbox.ticks, outbox.ring, outbox.expiry, "
                "outbox.processed_events, outbox.idempotency_keys, outbox.replay_requests, "
                "outbox.replay_events, outbox.restored_deliveries, outbox.dump_rows in share mode");
    for (int i = 0; i < 3; ++i)
    {
        scene.emit(10);
        EXPECT_EQ(scene.db->value("select outbox.drain('20 s')"), "t");
    }
    locker.exec("commit");
    EXPECT_EQ(scene.database.relay_pid(), scene.relay);
    scene.expect_each_once();
}

TEST(Unwritable, ARelayThatStartsWhileItsPositionIsLockedWaits)
{
    Scene scene;
    Db locker = scene.database.connect();
    locker.exec("begin; lock table outbox.relay_position in share mode");
    scene.emit(5);
    ASSERT_EQ(kill(scene.relay, SIGTERM), 0);
    EXPECT_TRUE(wait_until(std::chrono::seconds(20),
                           [&] { return scene.database.relay_pid() != scene.relay; }));
    EXPECT_TRUE(scene.database.reaches_state("waiting_lock"));
    locker.exec("commit");
    EXPECT_EQ(scene.db->value("select outbox.drain('20 s')"), "t");
}

// A table that a starting relay needs, or that one of its statements names, locked by somebody.
struct LockedStart
{
    LockedStart(OwnCluster &server, const std::string &table)
        : database(server), db(database.connect()), locker(database.connect())
    {
        EXPECT_EQ(db.value("select outbox.drain('30 s')"), "t");
        before = database.relay_pid();
        locker.exec("begin; lock table outbox." + table + " in access exclusive mode");
        EXPECT_EQ(kill(before, SIGTERM), 0);
    }

    // The view reads tables that may be locked.
    std::string value(const std::string &column)
    {
        return db.value("select coalesce(" + column + "::text, '') from outbox.relay_state()");
    }

    TestDatabase database;
    Db db;
    Db locker;
    pid_t before = 0;
    std::string pid;
};

TEST(Unwritable, ARelayStartsOrWaitsWhicheverTableSomebodyHasLocked)
{
    OwnCluster server;
    const std::vector<std::string> tables = {"events_3", "deliveries", "ring", "routes",
                                             "dump_rows"};
    std::vector<std::unique_ptr<LockedStart>> scenes;
    for (const std::string &table : tables)
        scenes.push_back(std::make_unique<LockedStart>(server, table));
    for (size_t i = 0; i < tables.size(); ++i)
    {
        SCOPED_TRACE(tables[i]);
        LockedStart &scene = *scenes[i];
        EXPECT_TRUE(wait_until(std::chrono::seconds(30),
                               [&]
                               {
                                   scene.pid = scene.value("pid");
                                   return scene.pid != std::to_string(scene.before) &&
                                          (scene.value("state") == "running" ||
                                           scene.value("state") == "waiting_lock");
                               }))
            << scene.value("state");
    }
    // Longer than a lock_timeout.
    EXPECT_FALSE(
        wait_until(Milliseconds(2500), [&] { return server.log_contains("due to lock timeout"); }))
        << server.log_text();
    for (size_t i = 0; i < tables.size(); ++i)
    {
        SCOPED_TRACE(tables[i]);
        LockedStart &scene = *scenes[i];
        EXPECT_EQ(scene.value("pid"), scene.pid);
        scene.locker.exec("commit");
        scene.db.exec("select outbox.emit($1, 'k', 'e', '{}')", scene.database.type());
        EXPECT_EQ(scene.db.value("select outbox.drain('30 s')"), "t");
        EXPECT_EQ(scene.value("pid"), scene.pid);
    }
}

// As with a full disk, on which a tick needs a new page and the position does not.
TEST(Unwritable, ATickThatCannotBeWrittenKeepsNothingFromBeingPublished)
{
    Scene scene;
    scene.db->exec("alter table outbox.ticks add constraint full_disk check (false) not valid");
    for (int i = 0; i < 3; ++i)
    {
        scene.emit(10);
        EXPECT_EQ(scene.db->value("select outbox.drain('20 s')"), "t");
        EXPECT_TRUE(scene.says("full_disk")) << scene.last_error();
    }
    EXPECT_EQ(scene.database.relay_pid(), scene.relay);
    scene.db->exec("alter table outbox.ticks drop constraint full_disk");
    scene.expect_each_once();
}

TEST(Unwritable, APositionThatCannotBeWrittenRepeatsNothingAndIsWrittenWhenItCan)
{
    Scene scene;
    scene.db->exec("alter table outbox.relay_position add constraint full_disk check (false) "
                   "not valid");
    scene.emit(20);
    Consumer consumer(kafka().bootstrap(), {scene.database.topic()});
    EXPECT_TRUE(consumer.read_count(30, std::chrono::seconds(20))) << "it may still be published";
    EXPECT_TRUE(scene.says("full_disk")) << scene.last_error();
    EXPECT_NE(scene.last_error().find("23514"), std::string::npos) << scene.last_error();
    scene.emit(10);
    EXPECT_TRUE(consumer.read_count(40, std::chrono::seconds(20)));
    EXPECT_EQ(scene.db->value("select outbox.drain('1 s')"), "f");
    EXPECT_EQ(scene.database.relay_pid(), scene.relay);
    scene.db->exec("alter table outbox.relay_position drop constraint full_disk");
    EXPECT_EQ(scene.db->value("select outbox.drain('60 s')"), "t");
    scene.expect_each_once();
}

// A relay that an ERROR ends says which, also while the next one has not started, and the next one
// repeats nothing of what Kafka has.
TEST(Unwritable, AnErrorThatEndsTheRelayStaysInLastErrorAndRepeatsNothing)
{
    Scene scene;
    scene.emit(5);
    EXPECT_EQ(scene.db->value("select outbox.drain('20 s')"), "t");
    scene.db->exec("alter table outbox.deliveries rename column lane to elsewhere");
    scene.db->exec("begin; select outbox.notify_relay(); commit");
    scene.emit(5);
    EXPECT_TRUE(scene.says("d.lane")) << scene.last_error();
    EXPECT_NE(scene.last_error().find("SQLSTATE 42703"), std::string::npos) << scene.last_error();
    for (int i = 0; i < 30; ++i)
        EXPECT_NE(scene.last_error().find("d.lane"), std::string::npos) << "it comes and goes";
    scene.db->exec("alter table outbox.deliveries rename column elsewhere to lane");
    EXPECT_EQ(scene.db->value("select outbox.drain('60 s')"), "t");
    scene.expect_each_once();
}
