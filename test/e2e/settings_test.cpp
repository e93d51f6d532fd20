// Settings that come and go while the relay runs.
#include <cstdio>
#include <fstream>

#include "servers.h"

using namespace outbox::test;

namespace
{

// Of nobody: made for this test, its key was thrown away.
constexpr const char *kAuthority = R"(-----BEGIN CERTIFICATE-----
MIIBgzCCASmgAwIBAgIUJsmmFF6AaXN7fOrQ3yhAxB3PxU4wCgYIKoZIzj0EAwIw
FjEUMBIGA1UEAwwLb3V0Ym94LXRlc3QwIBcNMjYxMTIyMDQ1MTU3WhgPMjEyNjEw
MjkwNDUxNTdaMBYxFDASBgNVBAMMC291dGJveC10ZXN0MFkwEwYHKoZIzj0CAQYI
KoZIzj0DAQcDQgAEtOOBHifB2jRIA7gib+MgAmcVzSziBDZO9gSK5DNUM41AqSZf
EjBW+f6y5fDwU35JtvSsDRjkrUWNvzTWrcDc9KNTMFEwHQYDVR0OBBYEFDJQQLds
WYaaJ33NaAd6doY/DWdDMB8GA1UdIwQYMBaAFDJQQLdsWYaaJ33NaAd6doY/DWdD
MA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSAAwRQIgY5HDg6WeqKIV8XUa
lIu/YU7Oe+3+v4nAhAE0BTlB9ZkCIQD0S4zsP05wIsEqhgMCs8j9v1NxB6BnR+OM
xS9ZBSfS8Q==
-----END CERTIFICATE-----
)";

bool
relay_becomes(const TestDatabase &database, const std::string &condition)
{
    Db db = database.connect();
    return wait_until(std::chrono::seconds(20),
                      [&] {
                          return db.value("select coalesce(" + condition +
                                          ", false) from outbox.relay_status") == "t";
                      });
}

void
change(const TestDatabase &database, const std::string &what)
{
    Db db = database.connect();
    db.exec("alter database " + database.name() + " " + what);
    EXPECT_EQ(db.value("select pg_reload_conf()"), "t");
}

} // namespace

// A process that has taken a setting of its database in cannot find out what it was before.
TEST(Settings, OneOfTheDatabaseIsTakenBackByItsReset)
{
    TestDatabase database(cluster());
    Db db = database.connect();
    ASSERT_TRUE(relay_becomes(database, "state = 'running'"));

    change(database, "set outbox.kafka_config = 'compression.type=nonsense'");
    ASSERT_TRUE(relay_becomes(database, "config_error like '%compression.type%'"));
    EXPECT_EQ(db.value("select state from outbox.relay_status"), "running");

    change(database, "reset outbox.kafka_config");
    EXPECT_TRUE(relay_becomes(database, "state = 'running' and config_error is null"));
    const std::string id = db.value("select outbox.emit($1, 'k', 'made', '{}')", database.type());
    EXPECT_EQ(db.value("select outbox.wait_published($1, '20 s')", id), "t");
}

// Neither what a database's owner has set for all of its sessions, nor what somebody has set for
// the role that the relay works as. Settings of outbox that the database has do count.
// Up to 0.2 several counted.
TEST(Settings, OneRequestAtATimeIsUnderWayWhateverIsAskedFor)
{
    TestDatabase database(cluster());
    kafka().create_topic(database.topic());
    Db db = database.connect();
    ASSERT_TRUE(relay_becomes(database, "state = 'running'"));
    change(database, "set outbox.kafka_config = 'max.in.flight=5'");
    EXPECT_TRUE(
        wait_until(std::chrono::seconds(20), []
                   { return cluster().log_contains("outbox relay: max.in.flight counts as 1"); }));
    db.exec("select outbox.emit($1, 'k', 'made', '{}')", database.type());
    EXPECT_EQ(db.value("select outbox.drain('20 s')"), "t");
    EXPECT_TRUE(relay_becomes(database, "state = 'running' and config_error is null"));
}

TEST(Settings, ThoseOfRolesAndOtherOnesOfTheDatabaseDoNotReachTheRelay)
{
    OwnCluster server;
    TestDatabase database(server);
    const std::string topic = "settings_" + database.topic();
    kafka().create_topic(topic);
    Db db = database.connect();
    db.exec("create role mallory; grant mallory to postgres");
    const std::string first = std::to_string(database.relay_pid());
    const std::string alter = "alter database " + database.name() + " set ";
    db.exec(alter + "outbox.topic_template = 'settings_outbox.event.{aggregate_type}'");
    for (const char *setting :
         {"session_authorization = 'mallory'", "role = 'mallory'", "track_activities = off",
          "session_preload_libraries = 'no_such_library'", "search_path = 'mallory'",
          "default_transaction_read_only = on", "client_encoding = 'SQL_ASCII'",
          "log_statement = 'all'"})
        db.exec(alter + setting);
    db.exec("alter role postgres set outbox.topic_template = 'of_the_role'");
    db.exec("alter role postgres set outbox.bootstrap_servers = 'nowhere:1'");
    db.exec("alter role postgres set jit = off");
    db.exec("alter role all set outbox.headers_format = 'cloudevents'");
    db.exec("alter role all set track_activities = off");
    // It may be on its way to a restart already, as the database has other settings.
    db.exec("select pg_terminate_backend($1::int)", first);
    ASSERT_TRUE(wait_until(std::chrono::seconds(20),
                           [&]
                           {
                               return db.value("select coalesce(pid <> $1::int, false) from "
                                               "outbox.relay_status",
                                               first) == "t";
                           }));
    ASSERT_TRUE(wait_until(std::chrono::seconds(20),
                           [&]
                           {
                               return db.value("select count(*) from pg_stat_activity where "
                                               "backend_type = 'outbox relay' and state = 'idle' "
                                               "and pid <> $1::int",
                                               first) == "1";
                           }))
        << db.value("select r::text from outbox.relay_status r");
    const auto published = [&](const std::string &key)
    {
        const std::string id =
            db.value("select outbox.emit($1, $2, 'made', '{}')", database.type(), key);
        return db.value("select outbox.wait_published($1, '20 s')", id);
    };
    EXPECT_EQ(published("1"), "t") << db.value("select r::text from outbox.relay_status r");
    // Nor after a reload.
    db.exec(alter + "lock_timeout = '1 ms'");
    db.exec(alter + "outbox.max_attempts = 3");
    EXPECT_EQ(db.value("select pg_reload_conf()"), "t");
    EXPECT_EQ(published("2"), "t") << db.value("select r::text from outbox.relay_status r");
    Consumer consumer(kafka().bootstrap(), {topic});
    ASSERT_TRUE(consumer.read_count(2, std::chrono::seconds(20)));
    for (const auto &header : consumer.records().front().headers)
        EXPECT_NE(header.first.substr(0, 3), "ce_");
    // The database's owner cannot have it dropped.
    db.exec("alter database " + database.name() + " reset all");
    db.exec("alter role postgres reset all; alter role all reset all");
}

// The file of passwords or certificates may come later than the server, or be away for a moment
// while it is replaced: nobody has to ask the relay to look again.
TEST(Settings, AFileThatWasNotThereIsFoundWithoutAReload)
{
    OwnCluster server(Settings{{"outbox.kafka_config_file", "later.conf"}});
    TestDatabase database(server);
    kafka().create_topic(database.topic());
    Db db = database.connect();
    ASSERT_TRUE(relay_becomes(database, "state = 'config_error'"));
    EXPECT_TRUE(relay_becomes(database, "last_error like '%later.conf%No such file%' and "
                                        "last_error_at > now() - interval '1 minute'"));
    const std::string id = db.value("select outbox.emit($1, 'k', 'made', '{}')", database.type());

    const std::string path = db.value("show data_directory") + "/later.conf";
    const std::string authority = db.value("show data_directory") + "/ca.pem";
    std::ofstream(path) << "security.protocol=ssl\nssl.ca.location=" << authority << '\n';
    ASSERT_TRUE(relay_becomes(database, "last_error like '%ssl.ca.location%'"));
    EXPECT_EQ(db.value("select state from outbox.relay_status"), "config_error");

    // Apart from its authority the broker of this test does without TLS.
    std::ofstream(authority) << kAuthority;
    ASSERT_TRUE(relay_becomes(database, "state <> 'config_error' and config_error is null"));
    std::ofstream(path) << "compression.type=none\n";
    EXPECT_EQ(db.value("select pg_reload_conf()"), "t");
    EXPECT_EQ(db.value("select outbox.wait_published($1, '20 s')", id), "t");

    // The configuration in use is kept until the new one is good.
    EXPECT_EQ(std::rename(path.c_str(), (path + ".away").c_str()), 0);
    EXPECT_EQ(db.value("select pg_reload_conf()"), "t");
    ASSERT_TRUE(relay_becomes(database, "state = 'running' and config_error like '%later.conf%'"));
    EXPECT_EQ(std::rename((path + ".away").c_str(), path.c_str()), 0);
    EXPECT_TRUE(relay_becomes(database, "state = 'running' and config_error is null"));
}

namespace
{

struct Hostile
{
    const char *name;
    const char *value;
};

// Of the server, the database and the role of the relay; each would do it harm.
constexpr Hostile kHostile[] = {
    {"temp_file_limit", "0"},
    {"work_mem", "64kB"},
    {"max_stack_depth", "100kB"},
    {"jit", "on"},
    {"jit_above_cost", "0"},
    {"jit_inline_above_cost", "0"},
    {"jit_optimize_above_cost", "0"},
    {"statement_timeout", "1ms"},
    {"lock_timeout", "1ms"},
    {"default_transaction_isolation", "serializable"},
    {"default_transaction_read_only", "on"},
    {"default_transaction_deferrable", "on"},
    {"idle_in_transaction_session_timeout", "1ms"},
    {"idle_session_timeout", "1ms"},
    {"standard_conforming_strings", "off"},
    {"quote_all_identifiers", "on"},
    {"transform_null_equals", "on"},
    {"array_nulls", "off"},
    {"timezone", "Pacific/Apia"},
    {"datestyle", "SQL, DMY"},
    {"intervalstyle", "sql_standard"},
    {"extra_float_digits", "-15"},
    {"bytea_output", "escape"},
    {"client_encoding", "LATIN1"},
    {"row_security", "off"},
    {"default_statistics_target", "1"},
    {"cursor_tuple_fraction", "0"},
    {"gin_fuzzy_search_limit", "1"},
    {"from_collapse_limit", "1"},
    {"track_functions", "all"},
    {"debug_print_plan", "on"},
    {"commit_delay", "1000"},
    {"enable_seqscan", "off"},
    {"enable_hashjoin", "off"},
    {"enable_indexscan", "off"},
    {"enable_indexonlyscan", "off"},
    {"enable_bitmapscan", "off"},
    {"enable_tidscan", "off"},
    {"enable_nestloop", "off"},
    {"random_page_cost", "1e9"},
    {"cpu_index_tuple_cost", "1e9"},
    {"plan_cache_mode", "force_custom_plan"},
};

// They hold as long as this lives, but not in its session.
class HostileServer
{
public:
    HostileServer(Db &db, const std::string &database) : db_(db), database_(database)
    {
        for (const Hostile &setting : kHostile)
            db_.exec("select set_config($1, current_setting($1), false)", setting.name);
        for (const char *of : kOf)
            for (const Hostile &setting : kHostile)
                db_.exec(start(of) + "set " + setting.name + " = '" + setting.value + "'");
        reload();
    }
    ~HostileServer()
    {
        for (const char *of : kOf)
            for (const Hostile &setting : kHostile)
                db_.exec(start(of) + "reset " + setting.name);
        reload();
    }
    HostileServer(const HostileServer &) = delete;
    HostileServer &operator=(const HostileServer &) = delete;

    void reload() { EXPECT_EQ(db_.value("select pg_reload_conf()"), "t"); }

private:
    static constexpr const char *kOf[] = {"system", "database", "role"};

    std::string start(const std::string &of) const
    {
        return "alter " + of + " " +
               (of == "database" ? database_ + " "
                : of == "role"   ? "postgres "
                                 : "");
    }

    Db &db_;
    std::string database_;
};

} // namespace

TEST(Settings, NoneThatIsMeantForSessionsEndsTheRelayOrHasItRefuseWhatTheyEmit)
{
    OwnCluster server;
    TestDatabase database(server);
    kafka().create_topic(database.topic());
    Db db = database.connect();
    const std::string first = std::to_string(database.relay_pid());
    db.exec("select outbox.pause()");
    ASSERT_TRUE(database.reaches_state("paused"));
    // So many blocked keys that looking at them takes more memory than is allowed. Their lanes are
    // of the kind of keys, see bgworker/engine/common/lanes.cpp.
    db.exec("insert into outbox.events (aggregate_type, aggregate_id, event_type, payload) "
            "select $1, 'f' || i, 'made', '{}' from generate_series(1, 20000) i",
            database.type());
    db.exec("insert into outbox.deliveries (seq, xid, slot, event_id, lane, topic, partition_key, "
            "state, blocking, attempts, last_error, failed_at) "
            "select seq, xid, slot, id, (hashtextextended(aggregate_id, 7) & -4) | 1, $1, "
            "aggregate_id, "
            "'FAILED', true, 3, 'x', now() from outbox.events",
            database.topic());
    HostileServer hostile(db, database.name());
    // It may be on its way to a restart already, as the database has other settings.
    db.exec("select pg_terminate_backend($1::int)", first);
    ASSERT_TRUE(wait_until(std::chrono::seconds(20),
                           [&]
                           {
                               return db.value("select coalesce(pid <> $1::int, false) from "
                                               "outbox.relay_status",
                                               first) == "t";
                           }));
    const auto published = [&]
    {
        const std::string id = db.value(
            "select outbox.emit($1, 'k', 'made', (repeat('[', 1999) || repeat(']', 1999))::jsonb)",
            database.type());
        return db.value("select outbox.wait_published($1, '20 s')", id);
    };
    db.exec("select outbox.resume()");
    EXPECT_EQ(published(), "t") << db.value("select r::text from outbox.relay_status r");
    EXPECT_EQ(db.value("select count(*) from outbox.deliveries where state <> 'FAILED'"), "0");

    const std::string relay = db.value("select pid from outbox.relay_status");
    hostile.reload();
    db.exec("select outbox.retry_failed('nothing')"); // the relay looks at all of them
    EXPECT_EQ(published(), "t") << db.value("select r::text from outbox.relay_status r");
    EXPECT_EQ(db.value("select pid from outbox.relay_status"), relay);

    // What was set aside follows a change of routes by the indexes, and not in hours.
    const std::string moved = database.name() + ".moved";
    kafka().create_topic(moved);
    db.exec("insert into outbox.routes (aggregate_type, topic) values ($1, $2)", database.type(),
            moved);
    const auto left = [&]
    { return db.value("select count(*) from outbox.deliveries where topic <> $1", moved); };
    EXPECT_TRUE(wait_until(std::chrono::seconds(60), [&] { return left() == "0"; })) << left();
    EXPECT_EQ(published(), "t") << db.value("select r::text from outbox.relay_status r");
}

// As what was stored when another version of the library was loaded, or none. With a setting of
// the superuser's role they are applied once more. What nobody knows is passed over.
TEST(Settings, OnesOfTheDatabaseThatAreRefusedStopTheRelayUntilTheyAreTakenOut)
{
    OwnCluster server;
    TestDatabase database(server);
    const std::string topic = "settings_" + database.topic();
    kafka().create_topic(topic);
    Db db = database.connect();
    db.exec("alter database " + database.name() +
            " set outbox.topic_template = 'settings_outbox.event.{aggregate_type}'");
    db.exec("set allow_system_table_mods = on");
    for (const bool of_role : {false, true})
    {
        if (of_role)
            db.exec("alter role postgres set outbox.max_attempts = 3");
        db.exec(
            "update pg_db_role_setting s "
            "set setconfig = '{outbox.no_such=1,outbox.max_attempts=many}' || s.setconfig "
            "from pg_database d where d.oid = s.setdatabase and d.datname = current_database()");
        database.restart_relay();
        ASSERT_TRUE(database.reaches_state("config_error"));
        const std::string problem = db.value("select config_error from outbox.relay_status");
        EXPECT_NE(problem.find("outbox.max_attempts that is stored for the database is refused"),
                  std::string::npos)
            << problem;
        const std::string id =
            db.value("select outbox.emit($1, 'k', 'made', '{}')", database.type());
        EXPECT_EQ(db.value("select outbox.wait_published($1, '500 ms')", id), "f");
        db.exec("alter database " + database.name() + " reset outbox.max_attempts");
        server.reload();
        EXPECT_EQ(db.value("select outbox.wait_published($1, '20 s')", id), "t")
            << db.value("select r::text from outbox.relay_status r");
    }
    Consumer consumer(kafka().bootstrap(), {topic});
    EXPECT_TRUE(consumer.read_count(2, std::chrono::seconds(20)));
}

// What a broker that hangs keeps must leave room for others. 0.2 took any number.
TEST(Settings, FewerThanAHundredEventsInFlightCountAsAHundred)
{
    EmbeddedKafka broker;
    broker.start();
    OwnCluster server(
        Settings{{"outbox.bootstrap_servers", broker.bootstrap()}, {"outbox.max_in_flight", "1"}});
    TestDatabase database(server);
    broker.create_topic(database.topic());
    Db db = database.connect();
    const auto emit = [&](int count)
    {
        db.exec("select outbox.emit($1, 'k' || i, 'made', '{}') from generate_series(1, $2::int) i",
                database.type(), count);
    };
    emit(1);
    ASSERT_EQ(db.value("select outbox.drain('20 s')"), "t");
    EXPECT_TRUE(server.log_contains("outbox relay: outbox.max_in_flight counts as 100, not 1"));
    broker.stop();
    emit(500);
    EXPECT_TRUE(relay_becomes(database, "in_flight_events = 100"))
        << db.value("select r::text from outbox.relay_status r");
    broker.start();
    EXPECT_EQ(db.value("select outbox.drain('20 s')"), "t");
    db.exec("alter system set outbox.max_in_flight_size = '64kB'");
    db.exec("select pg_reload_conf()");
    EXPECT_TRUE(wait_until(
        std::chrono::seconds(20),
        [&] { return server.log_contains("outbox relay: outbox.max_in_flight_size is 64 kB"); }));
}

TEST(Settings, AnEventLargerThanAllThatMayBeInFlightGoesAlone)
{
    TestDatabase database(cluster(), TestDatabase::Extension::kNotInstalled);
    kafka().create_topic(database.topic());
    Db db = database.connect();
    db.exec("alter database " + database.name() + " set outbox.max_in_flight_size = '64kB'");
    db.exec("create extension outbox");
    for (const int size : {10, 900000, 10, 200000})
        db.exec("select outbox.emit($1, 'k', 'made', to_jsonb(repeat('x', $2::int)))",
                database.type(), size);
    EXPECT_EQ(db.value("select outbox.drain('20 s')"), "t");
    EXPECT_EQ(db.value("select coalesce(string_agg(last_error, '; '), '') from outbox.deliveries"),
              "");
}

TEST(Settings, RelayStatusSaysThatThereIsNoWorkerForTheLauncher)
{
    // PostgreSQL's own launcher, that of logical replication, has the only one.
    OwnCluster server(Settings{{"max_worker_processes", "1"}});
    TestDatabase database(server);
    Db db = database.connect();
    EXPECT_TRUE(server.log_contains("too many background workers"));
    EXPECT_EQ(db.value("select state from outbox.relay_status"), "absent");
    EXPECT_NE(db.value("select last_error from outbox.relay_status").find("max_worker_processes"),
              std::string::npos);
}
