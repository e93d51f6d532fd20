// Settings that the server starts without.
#include <array>

#include "servers.h"

using namespace outbox::test;

// PostgreSQL starts with a value that the library refuses, and takes the default: events would go
// to other topics. They wait until the setting is corrected, or taken out, whichever it is.
TEST(Settings, OneThatTheServerStartsWithoutStopsTheRelayUntilItIsCorrected)
{
    struct Case
    {
        const char *name;
        const char *wrong;
        const char *right;
    };
    constexpr Case kCases[] = {
        {"outbox.topic_template", "{no_such_field}", "settings_outbox.event.{aggregate_type}"},
        {"outbox.retention", "7 dayz", "30 d"},
        {"Outbox.Headers_Format", "cloudevent", "cloudevents"},
        {"outbox.max_in_flight", "-1", "2000"}};
    OwnCluster server;
    TestDatabase database(server);
    kafka().create_topic(database.topic());
    kafka().create_topic("settings_" + database.topic());
    // In place of what a role sets the relay has what the server has.
    database.connect().exec("alter role postgres set outbox.topic_template = 'of_the_role'");
    for (const Case &wrong : kCases)
    {
        for (const bool corrected : {true, false})
        {
            server.configure(wrong.name, wrong.wrong);
            server.restart();
            Db db = database.connect();
            ASSERT_TRUE(database.reaches_state("config_error")) << wrong.name;
            const std::string problem = db.value("select config_error from outbox.relay_status");
            EXPECT_NE(problem.find("was refused when the server started"), std::string::npos)
                << problem;
            EXPECT_NE(problem.find("; correct it"), std::string::npos) << problem;
            const std::string id =
                db.value("select outbox.emit($1, 'k', 'made', '{}')", database.type());
            server.reload(); // it is wrong as before
            EXPECT_EQ(db.value("select outbox.wait_published($1, '500 ms')", id), "f")
                << wrong.name;
            EXPECT_TRUE(database.reaches_state("config_error"));
            if (corrected)
                server.configure(wrong.name, wrong.right);
            else
                server.unconfigure(wrong.name);
            server.reload();
            EXPECT_EQ(db.value("select outbox.wait_published($1, '20 s')", id), "t")
                << wrong.name << ": " << db.value("select r::text from outbox.relay_status r");
        }
    }
    // One event has gone to each: the others to the topic of the default.
    Consumer consumer(kafka().bootstrap(), {"settings_" + database.topic()});
    EXPECT_TRUE(consumer.read_count(1, std::chrono::seconds(20)));
}

namespace
{

void
expect_published(Db &db, const TestDatabase &database)
{
    const std::string id = db.value("select outbox.emit($1, 'k', 'made', '{}')", database.type());
    EXPECT_EQ(db.value("select outbox.wait_published($1, '20 s')", id), "t")
        << db.value("select r::text from outbox.relay_status r");
}

constexpr const char *kWrong = "{no_such_field}";

// The server starts without a value that it has refused, which is then taken out of the files.
void
refuse_and_take_out(OwnCluster &server, const TestDatabase &database)
{
    server.configure("outbox.topic_template", kWrong);
    server.restart();
    Db db = database.connect();
    ASSERT_TRUE(database.reaches_state("config_error"));
    server.unconfigure("outbox.topic_template");
    server.reload();
    expect_published(db, database);
}

// A session is killed, by which the server starts all of its processes again.
void
crash(OwnCluster &server, const TestDatabase &database)
{
    server.expect_kill();
    Db db = database.connect();
    database.kill_process(std::stoi(db.value("select pg_backend_pid()")));
}

} // namespace

// What the server was started without is settled when it was taken out once: what is wrong with the
// configuration later, and what a reload refuses, is nothing to the relays that start.
TEST(Settings, OneThatWasTakenOutDoesNotComeBackWithFilesThatCannotBeRead)
{
    OwnCluster server;
    TestDatabase database(server);
    refuse_and_take_out(server, database);
    Db db = database.connect();
    server.configure("outbox.topic_template", kWrong);
    server.reload();
    database.restart_relay();
    expect_published(db, database);
    server.unconfigure("outbox.topic_template");
    server.configure("no such setting", "1");
    server.reload();
    database.restart_relay();
    expect_published(db, database);
    EXPECT_EQ(db.value("select config_error is null from outbox.relay_status"), "t");
}

// A file that is half edited says nothing: the line is out while its right value is looked up.
TEST(Settings, OneThatIsOutOfTheFilesIsNotSettledBeforeAReload)
{
    OwnCluster server;
    TestDatabase database(server);
    server.configure("outbox.topic_template", "{no_such_field}");
    server.restart();
    Db db = database.connect();
    ASSERT_TRUE(database.reaches_state("config_error"));
    server.reload(); // it is wrong as before
    const std::string now = db.value("select clock_timestamp()");
    ASSERT_TRUE(wait_until(
        std::chrono::seconds(20), [&]
        { return db.value("select last_error_at > $1 from outbox.relay_status", now) == "t"; }));
    server.unconfigure("outbox.topic_template");
    const std::string id = db.value("select outbox.emit($1, 'k', 'made', '{}')", database.type());
    EXPECT_EQ(db.value("select outbox.wait_published($1, '4 s')", id), "f"); // it has tried again
    database.restart_relay();
    EXPECT_EQ(db.value("select outbox.wait_published($1, '2 s')", id), "f");
    EXPECT_TRUE(database.reaches_state("config_error"));
    server.reload();
    EXPECT_EQ(db.value("select outbox.wait_published($1, '20 s')", id), "t");
}

// A subscription that has a value of its own does not see the server's, and is asked of all the
// same.
TEST(Settings, OneThatASubscriptionHasOfItsOwnIsCorrectedForItToo)
{
    OwnCluster server;
    TestDatabase database(server);
    const auto becomes = [&](Db &db, const std::string &state)
    {
        return wait_until(std::chrono::seconds(20),
                          [&]
                          {
                              return db.value("select string_agg(distinct state, ' ') from "
                                              "outbox.subscription_status") == state;
                          });
    };
    {
        Db db = database.connect();
        for (const char *of_its_own : {"", ", \"topic_template\": \"own.{aggregate_type}\""})
            db.exec("select outbox.create_subscription($1, 'kafka', $2::jsonb)",
                    of_its_own[0] == '\0' ? "plain" : "own",
                    "{\"bootstrap_servers\": \"" + kafka().bootstrap() + "\"" + of_its_own + "}");
        ASSERT_TRUE(becomes(db, "running"));
    }
    for (const auto &[name, wrong, right] :
         {std::array{"outbox.topic_template", "{no_such_field}", "outbox.event.{aggregate_type}"},
          std::array{"outbox.kafka_config", "acks=1", "linger.ms=2"}})
    {
        server.configure(name, wrong);
        server.restart();
        Db db = database.connect();
        ASSERT_TRUE(becomes(db, "config_error")) << name;
        server.configure(name, right);
        server.reload();
        EXPECT_TRUE(becomes(db, "running"))
            << name << ": "
            << db.value("select string_agg(s::text, ' ') from outbox.subscription_status s");
    }
}

// Only what was refused at the start counts. A crash makes no start of it, whatever the files have
// by then.
TEST(Settings, OneThatWasNotRefusedIsNotRefusedAfterACrash)
{
    OwnCluster server;
    TestDatabase database(server);
    server.configure("outbox.max_attempts", "7");
    server.restart();
    {
        Db db = database.connect();
        expect_published(db, database);
        server.unconfigure("outbox.max_attempts");
        server.reload();
        expect_published(db, database);
        server.configure("outbox.max_attempts", "9");
    }
    crash(server, database);
    Db db = database.connect();
    expect_published(db, database);
}

// What was taken out once is settled over a crash, too.
TEST(Settings, OneThatWasTakenOutDoesNotComeBackWithACrash)
{
    OwnCluster server;
    TestDatabase database(server);
    refuse_and_take_out(server, database);
    server.configure("outbox.topic_template", kWrong);
    server.reload();
    crash(server, database);
    Db db = database.connect();
    expect_published(db, database);
}

// Of one that is detached it is said, too: events are not removed.
TEST(Settings, OneThatTheServerStartsWithoutIsSaidWhereTheSubscriptionIsDetached)
{
    OwnCluster server;
    TestDatabase database(server);
    database.connect().exec("select outbox.detach_subscription('default')");
    ASSERT_TRUE(database.reaches_state("detached"));
    server.configure("outbox.retention", "7 dayz");
    server.restart();
    Db db = database.connect();
    const auto says_so = [&]
    {
        return db.value(
                   "select state = 'detached' and config_error ~ 'outbox.retention was refused' "
                   "from outbox.relay_status") == "t";
    };
    EXPECT_TRUE(wait_until(std::chrono::seconds(20), says_so));
    server.unconfigure("outbox.retention");
    server.reload();
    EXPECT_TRUE(wait_until(
        std::chrono::seconds(20),
        [&] { return db.value("select config_error is null from outbox.relay_status") == "t"; }));
}

// What is on the server's command line is there again when the files say nothing any more.
TEST(Settings, OneOfTheCommandLineThatIsRefusedComesBackWithoutTheFiles)
{
    OwnCluster server;
    TestDatabase database(server);
    server.pass({"-c", "outbox.topic_template={no_such_field}"});
    server.restart();
    Db db = database.connect();
    ASSERT_TRUE(database.reaches_state("config_error"));
    EXPECT_NE(db.value("select config_error from outbox.relay_status").find("command line"),
              std::string::npos);
    server.configure("outbox.topic_template", "outbox.event.{aggregate_type}");
    server.reload();
    expect_published(db, database);
    server.unconfigure("outbox.topic_template");
    server.reload();
    EXPECT_TRUE(database.reaches_state("config_error"));
    database.restart_relay();
    EXPECT_TRUE(database.reaches_state("config_error"));
}

// The database says which, whatever the server was to have, and whatever a role has besides.
TEST(Settings, OneThatTheServerStartsWithoutIsNothingToADatabaseThatHasItsOwn)
{
    OwnCluster server;
    TestDatabase database(server);
    Db old = database.connect();
    old.exec("alter database " + database.name() +
             " set outbox.topic_template = 'outbox.event.{aggregate_type}'");
    old.exec("alter role postgres set outbox.max_attempts = 3");
    server.configure("outbox.topic_template", "{no_such_field}");
    server.restart();
    Db db = database.connect();
    expect_published(db, database);
    db.exec("alter database " + database.name() + " reset outbox.topic_template");
    server.reload();
    EXPECT_TRUE(database.reaches_state("config_error"));
}
