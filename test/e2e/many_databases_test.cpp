// A server with more databases than it has room for relays, and what else is done to databases:
// renamed, moved, closed, made a template, dropped by force.
#include <thread>

#include "servers.h"

using namespace outbox::test;

namespace
{

constexpr auto kSoon = std::chrono::seconds(20);

bool
relays_become(const PgCluster &server, size_t count, const std::string &name = "%")
{
    Db db(server, "postgres");
    return wait_until(kSoon,
                      [&]
                      {
                          return db.value("select count(*) from pg_stat_activity where "
                                          "backend_type = 'outbox relay' and datname like $1",
                                          name) == std::to_string(count);
                      });
}

// Emits an event in this database, and sees it published by its own relay.
void
expect_published(const PgCluster &server, const std::string &name, const std::string &type)
{
    SCOPED_TRACE(name);
    Db db(server, name);
    db.exec("set default_transaction_read_only = off");
    const std::string id = db.value("select outbox.emit($1, 'k', 'e', '{}')", type);
    EXPECT_EQ(db.value("select outbox.wait_published($1, '20 s')", id), "t")
        << db.value("select r::text from outbox.relay_status r");
}

bool
is_absent_because(const TestDatabase &database, const std::string &reason)
{
    Db db = database.connect();
    return wait_until(kSoon,
                      [&]
                      {
                          const Result row =
                              db.exec("select state, last_error from outbox.relay_status");
                          return row.text(0, 0) == "absent" &&
                                 row.field(0, 1).value_or("").find(reason) != std::string::npos;
                      });
}

size_t
count_in_log(const PgCluster &server, const std::string &text)
{
    const std::string log = server.log_text();
    size_t count = 0;
    for (size_t at = log.find(text); at != std::string::npos; at = log.find(text, at + 1))
        ++count;
    return count;
}

// Room for one relay: the second database says why it has none, and what was emitted in it goes out
// when the first one gives its room back.
void
expect_second_waits_for_first(const Settings &settings, const std::string &reason,
                              const std::string &warning)
{
    OwnCluster server(settings);
    TestDatabase first(server);
    expect_published(server, first.name(), first.type());
    // It may have had to wait itself, for the relay that looked for the extension in "postgres".
    const size_t before = count_in_log(server, warning);
    TestDatabase second(server);
    TestDatabase third(server);
    Db db = second.connect();
    db.exec("select outbox.emit($1, 'k', 'e', '{}')", second.type());
    EXPECT_TRUE(is_absent_because(second, reason));
    EXPECT_TRUE(is_absent_because(third, reason));
    EXPECT_TRUE(wait_until(kSoon, [&] { return count_in_log(server, warning) > before; }));
    EXPECT_TRUE(relays_become(server, 1));
    third.connect().exec("drop extension outbox");

    first.connect().exec("drop extension outbox");
    EXPECT_TRUE(second.reaches_state("running"));
    EXPECT_EQ(db.value("select outbox.drain('20 s')"), "t");
    EXPECT_EQ(db.value("select count(last_error) from outbox.relay_status"), "0");
    EXPECT_EQ(count_in_log(server, warning), before + 1) << server.log_text();
}

} // namespace

TEST(ManyDatabases, OneWithoutAFreeWorkerSaysWhyAndGetsItsRelayWhenOneIsFree)
{
    expect_second_waits_for_first(
        {{"max_worker_processes", "2"}, {"max_logical_replication_workers", "0"}},
        "no background worker is free: all 2 of max_worker_processes",
        "outbox: no background worker is free for database");
}

TEST(ManyDatabases, OneWithoutAPlaceInSharedMemorySaysWhyAndGetsOneWhenItIsGivenBack)
{
    expect_second_waits_for_first({{"outbox.max_databases", "1"}},
                                  "all 1 places for databases are in use",
                                  "outbox: all 1 places for databases are in use");
}

// Relays that have failed and wait are nothing to those of others while workers are free.
TEST(ManyDatabases, ANewRelayStartsAtOnceBesideOnesThatAreStopped)
{
    OwnCluster server(Settings{{"max_worker_processes", "20"}});
    std::vector<std::unique_ptr<TestDatabase>> stopped;
    for (int i = 0; i < 3; i++)
    {
        stopped.push_back(std::make_unique<TestDatabase>(server));
        ASSERT_TRUE(stopped.back()->reaches_state("running"));
        stopped.back()->connect().exec("update outbox.relay_position set written_by = written_by");
        ASSERT_TRUE(stopped.back()->reaches_state("stopped"));
        TestDatabase fresh(server);
        EXPECT_TRUE(fresh.reaches_state("running", std::chrono::seconds(10)));
    }
}

// As a script does that makes the extension and tells it of Kafka at once: PostgreSQL lets a
// process that is just starting not hear of a reload.
TEST(ManyDatabases, AReloadWhileARelayStartsReachesIt)
{
    OwnCluster server(Settings{{"outbox.bootstrap_servers", ""}});
    for (int round = 0; round < 8; round++)
    {
        const bool configured = round % 2 == 0;
        TestDatabase database(server);
        server.configure("outbox.bootstrap_servers", configured ? kafka().bootstrap() : "");
        std::this_thread::sleep_for(Milliseconds(2 * round)); // whenever it is in its start
        server.reload();
        EXPECT_TRUE(database.reaches_state(configured ? "running" : "not_configured",
                                           std::chrono::seconds(10)))
            << round;
    }
}

// The extension in template1 is how every new database gets it. It takes no place there.
TEST(ManyDatabases, ANewDatabaseThatGotTheExtensionFromTemplate1HasARelay)
{
    OwnCluster server(Settings{{"outbox.max_databases", "1"}});
    {
        Db db(server, "template1");
        db.exec("create extension outbox");
        EXPECT_TRUE(
            wait_until(kSoon,
                       [&]
                       {
                           return db.exec("select last_error from outbox.relay_status").field(0) ==
                                  "this database is a template, and templates have no relay";
                       }));
    }
    TestDatabase fresh(server, TestDatabase::Extension::kNotInstalled);
    expect_published(server, fresh.name(), fresh.type());
}

TEST(ManyDatabases, EachPublishesByItsOwnSettings)
{
    TestDatabase one(cluster());
    TestDatabase other(cluster());
    const std::string topic = one.name() + ".own";
    const std::string role = one.name() + "_role";
    kafka().create_topic(topic);
    Db db(cluster(), "postgres");
    db.exec("create role " + role);
    // The owner of a database can set most of these; none of them is the relay's.
    for (const std::string &setting :
         {"outbox.topic_template = '" + topic + "'", "role = " + role,
          std::string("search_path = nowhere"), std::string("statement_timeout = 1"),
          std::string("default_transaction_isolation = serializable")})
        db.exec("alter database " + one.name() + " set " + setting);
    db.exec("select pg_terminate_backend(pid) from pg_stat_activity where datname = $1",
            one.name());

    Db there(cluster(), one.name());
    there.exec("set role postgres; set statement_timeout = '60s'; "
               "set default_transaction_isolation = 'read committed'");
    const std::string id = there.value("select outbox.emit('any', 'k', 'e', '{}')");
    EXPECT_EQ(there.value("select outbox.wait_published($1, '20 s')", id), "t");
    Consumer consumer(kafka().bootstrap(), {topic});
    ASSERT_TRUE(consumer.read_count(1, kSoon));
    EXPECT_EQ(consumer.records().at(0).header("id").value_or(""), id);
    expect_published(cluster(), other.name(), other.type());
    Consumer others(kafka().bootstrap(), {other.topic()});
    EXPECT_TRUE(others.read_count(1, kSoon));
    db.exec("alter database " + one.name() + " reset all");
    db.exec("drop role " + role);
}

TEST(ManyDatabases, TheRelayGoesOnWhenItsDatabaseIsRenamedMovedGivenAwayOrRestricted)
{
    PgCluster &server = cluster();
    TestDatabase database(server);
    TestDatabase neighbour(server);
    Db db(server, "postgres");
    const std::string name = database.name();
    const std::string type = database.type();
    const auto works = [&](const std::string &change)
    {
        SCOPED_TRACE(change);
        expect_published(server, name, type); // so that a relay is in the way
        db.exec(change);
        expect_published(server, name, type);
    };
    works("alter database " + name + " set default_transaction_read_only = on");
    works("alter database " + name + " connection limit 0");
    db.exec("create role new_owner");
    works("alter database " + name + " owner to new_owner");
    db.exec("set allow_in_place_tablespaces = on");
    db.exec("create tablespace elsewhere location ''");
    works("alter database " + name + " set tablespace elsewhere");

    // Two at once, and an idle transaction between: both relays are back afterwards.
    db.exec("begin");
    db.exec("alter database " + name + " rename to renamed");
    db.exec("alter database " + neighbour.name() + " rename to renamed_too");
    db.exec("commit");
    expect_published(server, "renamed", type);
    expect_published(server, "renamed_too", neighbour.type());
    db.exec("begin");
    db.exec("alter database renamed_too rename to other");
    db.exec("alter database renamed rename to another");
    db.exec("rollback");
    expect_published(server, "renamed", type);
    expect_published(server, "renamed_too", neighbour.type());
    db.exec("alter database renamed_too rename to " + neighbour.name());
    db.exec("alter database renamed rename to " + name);
    db.exec("alter database " + name + " set tablespace pg_default");
    db.exec("drop tablespace elsewhere");
    db.exec("alter database " + name + " owner to postgres");
    db.exec("drop role new_owner");
}

TEST(ManyDatabases, TheRelayLeavesADatabaseThatIsClosedOrMadeATemplateAndComesBack)
{
    PgCluster &server = cluster();
    TestDatabase database(server);
    TestDatabase neighbour(server, TestDatabase::Extension::kNotInstalled);
    Db db(server, "postgres");
    const std::string alter = "alter database " + database.name();
    expect_published(server, database.name(), database.type());

    db.exec(alter + " is_template true");
    EXPECT_TRUE(relays_become(server, 0, database.name()));
    EXPECT_TRUE(is_absent_because(database, "this database is a template"));
    db.exec("create database copied template " + database.name());
    expect_published(server, "copied", database.type());
    db.exec("drop database copied with (force)");
    db.exec(alter + " is_template false");
    expect_published(server, database.name(), database.type());

    db.exec(alter + " allow_connections false");
    EXPECT_TRUE(relays_become(server, 0, database.name()));
    db.exec(alter + " allow_connections true");
    expect_published(server, database.name(), database.type());

    // As an interrupted DROP DATABASE leaves it.
    const std::string set_limit = "update pg_database set datconnlimit = $1 where datname = $2";
    db.exec(set_limit, -2, database.name());
    db.exec("alter database " + neighbour.name() + " is_template false"); // the launcher looks
    EXPECT_TRUE(relays_become(server, 0, database.name()));
    EXPECT_FALSE(server.log_contains("cannot connect to invalid database"));
    db.exec(set_limit, -1, database.name());
    db.exec("alter database " + neighbour.name() + " is_template false");
    expect_published(server, database.name(), database.type());
}

TEST(ManyDatabases, DropWithForceEndsTheRelayForGood)
{
    PgCluster &server = cluster();
    TestDatabase database(server);
    kafka().create_topic(database.topic());
    database.connect().exec(
        "select outbox.emit($1, i::text, 'e', '{}') from generate_series(1, 20000) i",
        database.type());
    database.relay_pid();
    Db idle = database.connect(); // what FORCE is for
    const size_t before = count_in_log(server, "FATAL:  database");
    Db db(server, "postgres");
    const auto start = Clock::now();
    db.exec("drop database " + database.name() + " with (force)");
    EXPECT_LT(since(start), std::chrono::seconds(5));
    EXPECT_TRUE(relays_become(server, 0, database.name()));
    db.exec("create database " + database.name()); // wakes the launcher; and for the destructor
    EXPECT_EQ(count_in_log(server, "FATAL:  database"), before) << server.log_text();
}
