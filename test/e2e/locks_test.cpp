// Whatever of the extension's tables and indexes somebody has locked: no statement of the relay
// waits for it.
#include <algorithm>
#include <csignal>
#include <memory>

#include "watched_relay.h"

using namespace outbox::test;
using Scene = WatchedRelay;

namespace
{

// Short, so that the ring turns while the locks are held.
const Settings kTurning = {
    {"outbox.retention", "1s"},          {"outbox.processed_retention", "1s"},
    {"outbox.backoff_initial", "100ms"}, {"outbox.backoff_max", "300ms"},
    {"outbox.max_attempts", "1000"},     {"fsync", "off"}};

// A relation of ours that is locked against everybody, in a database of its own.
class LockedRelation
{
public:
    explicit LockedRelation(OwnCluster &server)
        : database_(server), db_(database_.connect()), locker_(database_.connect())
    {
        EXPECT_EQ(db_.value("select outbox.drain('30 s')"), "t");
        relay_ = database_.relay_pid();
        // One that is tried again all the while: its topic has no possible name, which this session
        // does not know.
        locker_.exec("set outbox.topic_template = 'anything'");
        locker_.exec("select outbox.emit('no topic', 'k', 'e', '{}')");
        EXPECT_TRUE(wait_until(std::chrono::seconds(20),
                               [&]
                               {
                                   return db_.value("select count(*) from outbox.deliveries "
                                                    "where state = 'RETRYING'") == "1";
                               }));
    }

    std::vector<std::string> relations()
    {
        std::vector<std::string> names;
        const Result found =
            db_.exec("select relname from pg_class where relnamespace = 'outbox'::regnamespace "
                     "and relkind in ('r', 'p', 'i', 'I', 'S') order by relname");
        for (int row = 0; row < found.rows(); ++row)
            names.push_back(found.text(row));
        return names;
    }

    // As TRUNCATE or REINDEX would; of a sequence, as ALTER SEQUENCE.
    void lock(const std::string &name)
    {
        name_ = name;
        const std::string kind = db_.value("select relkind from pg_class where relname = $1 "
                                           "and relnamespace = 'outbox'::regnamespace",
                                           name);
        locker_.exec("begin");
        if (kind == "i")
            locker_.exec("alter index outbox." + name + " set tablespace pg_default");
        else if (kind == "I")
            locker_.exec("alter index outbox." + name + " rename to " + name + "_renamed");
        else if (kind == "S")
            locker_.exec("alter sequence outbox." + name + " cache 1");
        else
            locker_.exec("lock table only outbox." + name + " in access exclusive mode");
        emit();
    }

    // What it needs may be locked.
    void emit()
    {
        emitted_ = false;
        db_.exec("set statement_timeout = '300ms'");
        try
        {
            last_ = db_.value("select outbox.emit($1, 'k', 'e', '{}')", database_.type());
            emitted_ = true;
            ++events_;
        }
        catch (const SqlError &error)
        {
            EXPECT_EQ(error.sqlstate(), "57014") << name_ << ": " << error.what();
        }
        db_.exec("set statement_timeout = '60s'");
    }

    // What was emitted has arrived, or the relay says what it waits for.
    bool is_plain(const std::vector<Record> &records)
    {
        const auto arrived =
            std::count_if(records.begin(), records.end(),
                          [&](const Record &record) { return record.topic == database_.topic(); });
        return !emitted_ || arrived == events_ ||
               db_.value("select state = 'waiting_lock' "
                         "and last_error like 'waiting for a lock on outbox.%' "
                         "from outbox.relay_state()") == "t";
    }

    std::string told()
    {
        return name_ + ": " +
               db_.value("select state || ': ' || coalesce(last_error, '') "
                         "from outbox.relay_state()");
    }

    void unlock() { locker_.exec("rollback"); }

    void expect_well()
    {
        SCOPED_TRACE(name_);
        emit();
        ASSERT_TRUE(emitted_);
        EXPECT_EQ(db_.value("select outbox.wait_published($1, '30 s')", last_), "t") << told();
        EXPECT_TRUE(database_.reaches_state("running")) << told();
        EXPECT_EQ(database_.relay_pid(), relay_);
    }

    std::string topic() const { return database_.topic(); }
    // How many should have arrived.
    long events() const { return events_; }

private:
    TestDatabase database_;
    Db db_;
    Db locker_;
    pid_t relay_ = 0;
    std::string name_;
    std::string last_; // event
    bool emitted_ = false;
    long events_ = 0;
};

} // namespace

TEST(Locks, NoStatementOfTheRelayWaitsForOneWhicheverTableOrIndexItIsOn)
{
    constexpr size_t kAtOnce = 10;
    OwnCluster server(kTurning);
    std::vector<std::unique_ptr<LockedRelation>> scenes;
    std::vector<std::string> topics;
    for (size_t i = 0; i < kAtOnce; ++i)
    {
        scenes.push_back(std::make_unique<LockedRelation>(server));
        topics.push_back(scenes.back()->topic());
        kafka().create_topic(topics.back());
    }
    Consumer consumer(kafka().bootstrap(), topics);
    const std::vector<std::string> names = scenes[0]->relations();
    EXPECT_GT(names.size(), 60U);
    for (size_t done = 0; done < names.size(); done += kAtOnce)
    {
        const size_t count = std::min(kAtOnce, names.size() - done);
        for (size_t i = 0; i < count; ++i)
            scenes[i]->lock(names[done + i]);
        for (size_t i = 0; i < count; ++i)
            EXPECT_TRUE(consumer.read_until(std::chrono::seconds(20),
                                            [&](const std::vector<Record> &records)
                                            { return scenes[i]->is_plain(records); }))
                << scenes[i]->told();
        // Longer than a lock_timeout.
        consumer.read_for(Milliseconds(2500));
        for (size_t i = 0; i < count; ++i)
        {
            scenes[i]->unlock();
            scenes[i]->expect_well();
        }
        ASSERT_FALSE(server.log_contains("lock timeout")) << server.log_text();
    }
    for (const auto &scene : scenes)
        EXPECT_TRUE(consumer.read_until(std::chrono::seconds(20),
                                        [&](const std::vector<Record> &records)
                                        {
                                            return std::count_if(records.begin(), records.end(),
                                                                 [&](const Record &record) {
                                                                     return record.topic ==
                                                                            scene->topic();
                                                                 }) == scene->events();
                                        }))
            << scene->topic();
}

TEST(Locks, ALockOnAnyOfItsTablesMakesTheRelayWaitAndSaySoAndRepeatNothing)
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

TEST(Locks, ALockIsNamedWhileARelayStartsAndForgottenWhenItIsGone)
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

TEST(Locks, ALockOnTheOthersHoldsNothingUp)
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

// As while an index is moved to another tablespace: a statement would wait for it, and fail.
TEST(Locks, ALockOnAnIndexOfThePositionIsOneOnThePosition)
{
    Scene scene;
    Db locker = scene.database.connect();
    locker.exec("begin; alter index outbox.relay_position_database set tablespace pg_default");
    scene.emit(5);
    EXPECT_TRUE(scene.database.reaches_state("waiting_lock"));
    locker.exec("commit");
    EXPECT_EQ(scene.db->value("select outbox.drain('20 s')"), "t");
    EXPECT_EQ(scene.database.relay_pid(), scene.relay);
}

TEST(Locks, ARelayThatStartsWhileItsPositionIsLockedWaits)
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

namespace
{

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

} // namespace

TEST(Locks, ARelayStartsOrWaitsWhicheverTableSomebodyHasLocked)
{
    OwnCluster server;
    const std::vector<std::string> tables = {"events_3", "ring", "dump_rows"};
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
                                   return !scene.pid.empty() &&
                                          scene.pid != std::to_string(scene.before) &&
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
