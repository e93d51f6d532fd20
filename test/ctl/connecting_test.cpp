// Several hosts, and connection strings with passwords.
#include <sstream>

#include "ctl.h"
#include "pty.h"
#include "support/fake_server.h"
#include "support/listener.h"

namespace outbox::test
{

namespace
{

class Hosts : public testing::Test
{
protected:
    Environment environment() const
    {
        Environment all = connection(server_, database_.name());
        all["PGHOST"] = "127.0.0.1,127.0.0.1";
        all["PGPORT"] = std::to_string(silent_.port()) + "," + std::to_string(server_.port());
        all["PGCONNECT_TIMEOUT"] = "2";
        return all;
    }

    const Listener silent_; // never answers
    OwnCluster server_;
    TestDatabase database_{server_};
};

TEST_F(Hosts, OneThatNeverAnswersCostsItsTimeAndThenTheNextIsTried)
{
    EXPECT_EQ(ctl(environment(), {"status"}).status, 0);
    Pty terminal({outboxctl(), "status", "--watch", "--interval", "100ms"}, environment());
    ASSERT_TRUE(terminal.shows("q or Ctrl-C ends")) << terminal.output();
    server_.stop();
    ASSERT_TRUE(terminal.shows("no connection, trying again")) << terminal.output();
    server_.start();
    terminal.mark();
    EXPECT_TRUE(terminal.shows("q or Ctrl-C ends", std::chrono::seconds(30))) << "connected again";
    server_.stop();
    ASSERT_TRUE(terminal.shows("no connection, trying again")) << terminal.output();
    // Most likely while it waits for the silent one.
    const auto pressed = Clock::now();
    terminal.type("\3");
    EXPECT_EQ(terminal.ends(std::chrono::seconds(5)), 0);
    EXPECT_LT(since(pressed), std::chrono::milliseconds(1500));
    server_.start();
}

TEST(Passwords, AreInNoMessageWhateverIsWrongWithTheConnectionString)
{
    const Environment nowhere = {
        {"PGHOST", "127.0.0.1"}, {"PGPORT", "1"}, {"PGPASSFILE", "/dev/null"}};
    const std::vector<std::string> all = {
        "host=127.0.0.1 password=my secretpart",
        "host=127.0.0.1 password=my secretpart port=1",
        "host=127.0.0.1 password=a secretpart=b",
        "host=127.0.0.1 password='my secretpart",
        "host=127.0.0.1 pasword=secretpart",
        "password = secretpart=x secretpart",
        "postgresql://me:secretpart@127.0.0.1:port/db",
        "postgresql://me:my secretpart@127.0.0.1:1/db",
        "postgresql://me:a@secretpart@127.0.0.1:1/db",
        "postgresql://me:a/secretpart@127.0.0.1:1/db",
        "postgresql://me:secretpart/a@127.0.0.1:1/db",
        "postgresql://me:a?secretpart@127.0.0.1:1/db",
        "postgresql://me:secretpart?x@127.0.0.1:1/db",
        "postgresql://me:a%zzsecretpart@127.0.0.1:1/db",
        "postgresql://me:a%00secretpart@127.0.0.1:1/db",
        "postgresql://me:secretpart@[127.0.0.1:1/db",
        "postgresql://me:secretpart@127.0.0.1:1/db?sslmode=nonsense",
        "postgresql://me:secretpart@127.0.0.1:1/db?nonsense=1",
        "postgresql://me@127.0.0.1:1/db?password=secretpart&x",
        "postgresq://me:secretpart@127.0.0.1:1/db",
        "postgres:/me:secretpart@127.0.0.1:1/db",
        "http://me:secretpart@127.0.0.1",
        "postgresql://me:secretpart@127.0.0.1:1/db"};
    for (const std::string &conninfo : all)
        for (const Words &words : std::vector<Words>{{"-d", conninfo, "status"},
                                                     {"-d", conninfo, "doctor", "--json"},
                                                     {"status", conninfo},
                                                     {"status", "--dbname=" + conninfo, conninfo}})
        {
            const Ran ran = ctl(nowhere, words);
            EXPECT_NE(ran.status, 0) << conninfo;
            EXPECT_EQ((ran.out + ran.err).find("secretpart"), std::string::npos)
                << words[0] << ": " << ran.out << ran.err;
            EXPECT_NE(ran.err, "");
        }
}

TEST(Passwords, OfAConnectionStringAreNotInTheListOfProcesses)
{
    const TestDatabase database(cluster());
    Environment environment = connection(cluster(), database.name());
    const std::vector<std::string> both = {
        "password=secretpart dbname=" + database.name(),
        "postgresql://postgres:secretpart@127.0.0.1:" + std::to_string(cluster().port()) + "/" +
            database.name()};
    for (const std::string &conninfo : both)
    {
        Pty terminal({outboxctl(), "--dbname=" + conninfo, "tail", "-t", "none", "-X",
                      "sasl.password=secretpart"},
                     environment);
        ASSERT_TRUE(terminal.shows("waiting for a topic")) << terminal.output();
        const std::string shown = read_file("/proc/" + std::to_string(terminal.pid()) + "/cmdline");
        EXPECT_NE(shown.find("--dbname="), std::string::npos) << shown;
        EXPECT_NE(shown.find("sasl.password="), std::string::npos) << shown;
        EXPECT_EQ(shown.find("secretpart"), std::string::npos) << shown;
        terminal.type("\3");
        EXPECT_EQ(terminal.ends(std::chrono::seconds(5)), 0);
    }
}

// What the server says before libpq can be told where to put it goes to stderr.
TEST(Connecting, WhatTheServerSaysMeanwhileReachesNoTerminal)
{
    const TestDatabase database(cluster(), TestDatabase::Extension::kNotInstalled);
    Db db = database.connect();
    db.exec("alter database " + database.name() + " set work_mem = '1MB'");
    db.exec("set allow_system_table_mods = on");
    db.exec("update pg_db_role_setting s set setconfig = array[e'work_mem=\\x1b[31mred\\u009b'] "
            "from pg_database d where d.oid = s.setdatabase and d.datname = current_database()");
    for (const bool watched : {false, true})
    {
        Words words = {"status"};
        if (watched)
            words.insert(words.end(), {"--watch", "--json"});
        const Ran ran = ctl(connection(cluster(), database.name()), words);
        EXPECT_EQ(ran.status, 5) << ran.err;
        EXPECT_NE(ran.err.find("\\x1b[31mred"), std::string::npos) << ran.err;
        EXPECT_EQ(ran.err.find('\x1b'), std::string::npos) << ran.err;
        EXPECT_EQ(ran.err.find("\xc2\x9b"), std::string::npos) << ran.err;
    }
}

// In lines as those of tail and status --watch, which are no JSON; the error is.
TEST(Connecting, WhatTheServerSaysMeanwhileIsARemark)
{
    const FakeServer server(
        [](const Conversation &client)
        {
            if (!client.startup().empty())
                client.serve(
                    [](const std::string &) { return report("ERROR", "XX000", "no"); }, 1 << 20,
                    kLetIn + report("WARNING", "01000", "mind\x1b[2J\nthe gap", 'N') + kReady);
        });
    const std::string remark = "outboxctl: WARNING:  mind\\x1b[2J\n  the gap\n  DETAIL: ";
    const Ran plain = ctl(server.environment(), {"status"});
    EXPECT_EQ(plain.err.rfind(remark, 0), 0U) << plain.err;
    Ran json = ctl(server.environment(), {"status", "--json"});
    EXPECT_EQ(json.err.rfind(remark, 0), 0U) << json.err;
    std::istringstream lines(json.err);
    std::string line;
    while (std::getline(lines, line) && line[0] != '{')
        EXPECT_TRUE(line.rfind("outboxctl: ", 0) == 0 || line.rfind("  ", 0) == 0) << line;
    json.err = line; // the last one
    EXPECT_EQ(json.error_json()["error"]["message"], "no");
    EXPECT_FALSE(std::getline(lines, line)) << line;
}

TEST(Connecting, ErrorsOfAServerAreCutOffAtACharacter)
{
    for (const bool login : {true, false})
        for (const bool json : {true, false})
        {
            std::string said = "x";
            for (int i = 0; i < (login ? 4500 : 2000000); ++i) // libpq takes 30000 bytes at a login
                said += "\xc3\xa4";
            const FakeServer server(
                [&](const Conversation &client)
                {
                    if (client.startup().empty())
                        return;
                    const std::string error = report(login ? "FATAL" : "ERROR", "XX000", said);
                    if (login)
                        (void) client.say(error);
                    else
                        client.serve([&](const std::string &) { return error; });
                });
            Words words = {"status"};
            if (json)
                words.emplace_back("--json");
            const Ran ran = ctl(server.environment(), words);
            EXPECT_EQ(ran.status, login ? 3 : 1);
            EXPECT_LT(ran.err.size(), 27000U) << "message, detail and hint";
            EXPECT_NE(ran.err.find("\xc3\xa4... (cut off; it has "), std::string::npos);
        }
}

} // namespace

} // namespace outbox::test
