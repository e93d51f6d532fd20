// One relay for each database that has the extension, as databases and extensions come and go.
#include "servers.h"

using namespace outbox::test;

namespace
{

// Emits one event and sees it arrive in the database's own topic, and nothing else there.
void
expect_flow(const TestDatabase &database)
{
    Db db = database.connect();
    const std::string id = db.value("select outbox.emit($1, 'k', 'e', '{}')", database.type());
    Consumer consumer(kafka().bootstrap(), {database.topic()});
    ASSERT_TRUE(
        consumer.read_until(std::chrono::seconds(20), [&](const std::vector<Record> &records)
                            { return !records.empty() && records.back().header("id") == id; }));
}

size_t
relays(PgCluster &server)
{
    Db db(server, "postgres");
    return std::stoul(
        db.value("select count(*) from pg_stat_activity where backend_type = 'outbox relay'"));
}

} // namespace

TEST(Databases, EachWithTheExtensionHasARelayOfItsOwnAndTheOthersHaveNone)
{
    OwnCluster server;
    TestDatabase first(server);
    TestDatabase second(server);
    TestDatabase without(server, TestDatabase::Extension::kNotInstalled);
    expect_flow(first);
    expect_flow(second);
    EXPECT_NE(first.relay_pid(), second.relay_pid());
    EXPECT_EQ(relays(server), 2U);

    // One database's rows are nothing to the other's relay.
    Consumer consumer(kafka().bootstrap(), {first.topic(), second.topic()});
    ASSERT_TRUE(consumer.read_count(2, std::chrono::seconds(20)));
    consumer.read_for(Milliseconds(300));
    EXPECT_EQ(consumer.records().size(), 2U);
}

TEST(Databases, CreatingTheExtensionStartsTheRelayAndDroppingItEndsIt)
{
    OwnCluster server;
    TestDatabase database(server, TestDatabase::Extension::kNotInstalled);
    Db db = database.connect();
    for (int round = 0; round < 3; ++round)
    {
        const auto start = Clock::now();
        db.exec("create extension outbox");
        expect_flow(database);
        EXPECT_LT(since(start), std::chrono::seconds(5)) << "at once";
        db.exec("drop extension outbox");
        EXPECT_TRUE(wait_until(std::chrono::seconds(10), [&] { return relays(server) == 0; }));
    }
    // A schema of that name without the extension is nobody's business.
    db.exec("create schema outbox");
    EXPECT_EQ(relays(server), 0U);
}

TEST(Databases, ARolledBackCreateOrDropChangesNothing)
{
    OwnCluster server;
    TestDatabase database(server, TestDatabase::Extension::kNotInstalled);
    Db db = database.connect();
    db.exec("begin; create extension outbox; rollback");
    db.exec("create extension outbox");
    expect_flow(database);
    db.exec("begin; drop extension outbox; rollback");
    expect_flow(database);
}

TEST(Databases, PlainDropDatabaseWorksWhileTheRelayIsBusy)
{
    OwnCluster server;
    TestDatabase database(server);
    kafka().create_topic(database.topic());
    database.connect().exec(
        "select outbox.emit($1, i::text, 'e', '{}') from generate_series(1, 50000) i",
        database.type());
    database.relay_pid(); // there, and draining
    const auto start = Clock::now();
    Db maintenance(server, "postgres");
    maintenance.exec("drop database " + database.name());
    EXPECT_LT(since(start), std::chrono::seconds(5));
    EXPECT_TRUE(wait_until(std::chrono::seconds(10), [&] { return relays(server) == 0; }));
    maintenance.exec("create database " + database.name()); // for the destructor
}

TEST(Databases, ADatabaseMadeFromATemplateWithTheExtensionPublishesItsOwnEventsOnly)
{
    OwnCluster server;
    TestDatabase original(server);
    expect_flow(original);
    Db(server, "postgres").exec("create database copied template " + original.name());
    Db copy(server, "copied");
    const std::string id = copy.value("select outbox.emit($1, 'k', 'e', '{}')", original.type());
    EXPECT_EQ(copy.value("select outbox.wait_published($1, '20 s')", id), "t");

    Consumer consumer(kafka().bootstrap(), {original.topic()});
    ASSERT_TRUE(consumer.read_count(2, std::chrono::seconds(20)));
    consumer.read_for(Milliseconds(300));
    EXPECT_EQ(consumer.records().size(), 2U);
}

// docs/operations.md ends a relay so. Each is told to in the first moment when it is shown.
TEST(Databases, TheRelayThatIsShownCanBeTerminated)
{
    OwnCluster server;
    TestDatabase database(server);
    Db db = database.connect();
    db.exec("create function terminate_relay() returns text language plpgsql as $$ "
            "declare told boolean; begin "
            "for i in 1..1000000 loop "
            "  select pg_catalog.pg_terminate_backend(pid) into told "
            "    from outbox.relay_status where pid is not null; "
            "  if told is not null then return told::text; end if; "
            "end loop; return 'no relay'; end $$");
    for (int i = 0; i < 6; i++)
    {
        db.exec("drop extension outbox");
        ASSERT_TRUE(wait_until(std::chrono::seconds(10), [&] { return relays(server) == 0; }));
        db.exec("create extension outbox");
        ASSERT_EQ(db.value("select terminate_relay()"), "true") << "relay " << i;
    }
}

// As who clears a server of all sessions does.
TEST(Databases, WhoEndsAllProcessesGetsLauncherAndRelayBack)
{
    OwnCluster server;
    TestDatabase database(server);
    expect_flow(database);
    const pid_t relay = database.relay_pid();
    Db db(server, "postgres");
    EXPECT_EQ(db.value("select count(*) from (select pg_terminate_backend(pid) from "
                       "pg_stat_activity where backend_type like 'outbox%') t"),
              "2");
    ASSERT_TRUE(wait_until(std::chrono::seconds(30),
                           [&]
                           {
                               return db.value("select count(*) from pg_stat_activity where "
                                               "backend_type like 'outbox%' and pid <> $1",
                                               static_cast<int>(relay)) == "2";
                           }));
    expect_flow(database);
    EXPECT_EQ(relays(server), 1U);
}

// As who stops everybody's queries does. Signals come while the relay works and while it waits.
TEST(Databases, WhoCancelsAllQueriesDisturbsNeitherLauncherNorRelay)
{
    OwnCluster server;
    TestDatabase database(server);
    expect_flow(database);
    Db db = database.connect();
    const std::string processes = "select string_agg(pid::text, ' ' order by pid) from "
                                  "pg_stat_activity where backend_type like 'outbox%'";
    const std::string before = db.value(processes);
    for (int i = 0; i < 50; ++i)
    {
        db.exec("select outbox.emit($1, 'k', 'made', '{}') from generate_series(1, 200)",
                database.type());
        EXPECT_EQ(db.value("select count(*) from (select pg_cancel_backend(pid) from "
                           "pg_stat_activity where backend_type like 'outbox%') t"),
                  "2");
    }
    expect_flow(database);
    EXPECT_EQ(db.value(processes), before);
    EXPECT_FALSE(server.log_contains("canceling statement")) << server.log_text();
}

// With these settings a transaction waits for all that are serializable and write, and nobody who
// may set them for a database may hold up its relay.
TEST(Databases, TheRelayOfADatabaseWhoseTransactionsAreDeferrableStarts)
{
    OwnCluster server;
    TestDatabase database(server);
    expect_flow(database);
    Db writer = database.connect();
    writer.exec("create table rows (n int)");
    writer.exec("begin transaction isolation level serializable");
    writer.exec("insert into rows values (1)");
    Db emitter = database.connect();
    Db db(server, "postgres");
    for (const char *setting : {"isolation = 'serializable'", "read_only = on", "deferrable = on"})
        db.exec("alter database " + database.name() + " set default_transaction_" + setting);
    EXPECT_EQ(db.value("select pg_terminate_backend(pid, 20000) from pg_stat_activity "
                       "where backend_type = 'outbox relay'"),
              "t");
    const std::string id = emitter.value("select outbox.emit($1, 'k', 'e', '{}')", database.type());
    Consumer consumer(kafka().bootstrap(), {database.topic()});
    EXPECT_TRUE(
        consumer.read_until(std::chrono::seconds(20), [&](const std::vector<Record> &records)
                            { return !records.empty() && records.back().header("id") == id; }));
}

// More than are started at a time have a database that they cannot connect to: who may rename it
// does so, and does not commit.
TEST(Databases, OnesThatAreLockedHoldUpTheRelaysOfNoOthers)
{
    constexpr int kLocked = 5;
    OwnCluster server;
    TestDatabase database(server);
    expect_flow(database);
    Db db(server, "postgres");
    const pid_t launcher = std::stoi(
        db.value("select pid from pg_stat_activity where backend_type = 'outbox launcher'"));
    ASSERT_EQ(kill(launcher, SIGSTOP), 0);
    for (int i = 0; i < kLocked; ++i)
        db.exec("create database locked" + std::to_string(i));
    db.exec("begin");
    for (int i = 0; i < kLocked; ++i)
        db.exec("alter database locked" + std::to_string(i) + " rename to renamed" +
                std::to_string(i));
    ASSERT_EQ(kill(launcher, SIGCONT), 0);
    const std::string waiting = "select count(*) from pg_locks l where not l.granted "
                                "and l.locktype = 'object' and l.pid <> pg_backend_pid()";
    Db other = database.connect();
    ASSERT_TRUE(wait_until(std::chrono::seconds(30), [&] { return other.value(waiting) == "4"; }));
    database.restart_relay();
    expect_flow(database);
    // Each of them ends when it is told to.
    EXPECT_TRUE(wait_until(std::chrono::seconds(30), [&] { return other.value(waiting) == "5"; }));
    EXPECT_EQ(
        other.value("select count(*) from (select pg_terminate_backend(l.pid, 20000) as ended "
                    "from pg_locks l where not l.granted and l.locktype = 'object' and "
                    "l.pid <> pg_backend_pid()) t where ended"),
        "5");
    db.exec("rollback");
}

// The relay looks at the extension while it is dropped and made anew at once.
TEST(Databases, AnExtensionThatIsMadeAnewAtOnceIsNotTakenForAForgedOne)
{
    OwnCluster server;
    TestDatabase database(server);
    kafka().create_topic(database.topic());
    Db db = database.connect();
    for (int i = 0; i < 40; ++i)
    {
        db.exec("begin; drop extension outbox; create extension outbox; commit");
        const std::string id =
            db.value("select outbox.emit($1, 'k', 'made', null)", database.type());
        EXPECT_EQ(db.value("select outbox.wait_published($1, '20 s')", id), "t");
    }
    EXPECT_FALSE(server.log_contains("is not the one of the extension"));
    EXPECT_FALSE(server.log_contains("is missing"));
    EXPECT_FALSE(server.log_contains("was truncated"));
}
