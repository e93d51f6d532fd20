// The command line itself, and connections that cannot be made.
#include "ctl.h"

#include <sys/wait.h>

namespace outbox::test
{

namespace
{

const Environment kNowhere = {{"PGHOST", "127.0.0.1"}, {"PGPORT", "1"}};

TEST(Usage, HelpNamesEveryCommandAndExitsWithZero)
{
    const Ran ran = ctl(kNowhere, {"--help"});
    EXPECT_EQ(ran.status, 0);
    for (const char *word :
         {"status", "lag", "emit", "tail", "failed list", "failed show", "failed retry",
          "failed discard", "replay", "replays list", "replays cancel", "pause", "resume", "doctor",
          "contracts lint", "completion", "Exit codes", "--json", "NO_COLOR"})
        EXPECT_NE(ran.out.find(word), std::string::npos) << word;
    EXPECT_EQ(ran.out.find("man-page"), std::string::npos) << "for the Makefile alone";
}

TEST(Usage, EveryCommandHasHelp)
{
    for (const Words &words : std::vector<Words>{{"status"},
                                                 {"lag"},
                                                 {"emit"},
                                                 {"tail"},
                                                 {"failed"},
                                                 {"failed", "list"},
                                                 {"failed", "retry"},
                                                 {"replay"},
                                                 {"replays", "list"},
                                                 {"pause"},
                                                 {"resume"},
                                                 {"doctor"},
                                                 {"contracts", "lint"},
                                                 {"completion"}})
    {
        Words all = words;
        all.emplace_back("--help");
        const Ran ran = ctl(kNowhere, all);
        EXPECT_EQ(ran.status, 0) << words.back();
        EXPECT_EQ(ran.out.rfind("Usage: outboxctl " + words[0], 0), 0U) << ran.out;
    }
}

TEST(Usage, TheVersionIsTheExtensions)
{
    const Ran ran = ctl(kNowhere, {"--version"});
    EXPECT_EQ(ran.status, 0);
    EXPECT_EQ(ran.out, "outboxctl 0.3\n");
}

TEST(Usage, WrongUsageExitsWithTwoAndSaysWhatIsWrong)
{
    const std::vector<std::pair<Words, std::string>> cases = {
        {{}, "subcommand"},
        {{"statu"}, "there is no command \"statu\""},
        {{"failed"}, "subcommand"},
        {{"failed", "lst"}, "there is no command \"lst\""},
        {{"status", "--bogus"}, "--bogus"},
        {{"status", "--interval", "1"}, "--watch"},
        {{"status", "--watch", "--interval", "soon"}, "\"soon\" is no time"},
        {{"status", "--color", "blue"}, "blue"},
        {{"emit", "order", "1"}, "EVENT_TYPE"},
        {{"emit", "order", "1", "x", "{}", "--file", "x"}, "--file"},
        {{"emit", "order", "1", "x", "{}", "--schema-version", "0"}, "1 to"},
        {{"tail", "-n", "none"}, "none"},
        {{"failed", "list", "--state", "lost"}, "lost"},
        {{"failed", "retry"}, "which events is not said"},
        {{"failed", "retry", "--all", "019c0e6b-90a7-7a22-8000-5d1f0d4c1c1e"}, "exclude"},
        {{"failed", "discard", "019c0e6b-90a7-7a22-8000-5d1f0d4c1c1e"}, "--reason"},
        {{"replay", "--rate", "0"}, "1 to 10000"},
        {{"replay", "--max", "1000001"}, "1 to 1000000"},
        {{"replay", "--dry-run", "--yes"}, "excludes"},
        {{"replays"}, "subcommand"},
        {{"replays", "cancel"}, "ID"},
        {{"completion", "tcsh"}, "tcsh"},
    };
    for (const auto &[words, text] : cases)
    {
        const Ran ran = ctl(kNowhere, words);
        EXPECT_EQ(ran.status, 2) << text << ": " << ran.err;
        EXPECT_NE(ran.err.find(text), std::string::npos) << ran.err;
        EXPECT_EQ(ran.out, "") << text;
    }
}

TEST(Usage, NoServerExitsWithThreeInLibpqsWords)
{
    for (const Words &words : std::vector<Words>{{"status"},
                                                 {"status", "--watch"},
                                                 {"lag"},
                                                 {"pause"},
                                                 {"resume"},
                                                 {"tail"},
                                                 {"doctor"},
                                                 {"failed", "list"},
                                                 {"emit", "a", "1", "b", "{}"}})
    {
        const Ran ran = ctl(kNowhere, words);
        EXPECT_EQ(ran.status, 3) << words[0];
        EXPECT_NE(ran.err.find("port 1 failed: Connection refused"), std::string::npos) << ran.err;
    }
}

TEST(Usage, WithJsonErrorsAreJsonOnStderr)
{
    const Ran ran = ctl(kNowhere, {"--json", "status"});
    EXPECT_EQ(ran.status, 3);
    EXPECT_EQ(ran.out, "");
    const Json error = ran.error_json()["error"];
    EXPECT_NE(error["message"].get<std::string>().find("refused"), std::string::npos);
    EXPECT_EQ(error["exit_code"], 3);
    EXPECT_TRUE(error["sqlstate"].is_null());
}

TEST(Usage, WithJsonWrongUsageIsJsonToo)
{
    const Ran ran = ctl(kNowhere, {"statu", "--json"});
    EXPECT_EQ(ran.status, 2);
    EXPECT_EQ(ran.error_json()["error"]["exit_code"], 2);
}

TEST(Usage, AMissingDatabaseIsNoConnection)
{
    const Ran ran = ctl(connection(cluster(), "nowhere"), {"status"});
    EXPECT_EQ(ran.status, 3);
    EXPECT_NE(ran.err.find("database \"nowhere\" does not exist"), std::string::npos) << ran.err;
}

TEST(Usage, ADatabaseIsNamedAsForPsql)
{
    const TestDatabase database(cluster());
    const Environment elsewhere = connection(cluster(), "postgres");
    const std::string port = std::to_string(cluster().port());
    for (const std::string &conninfo :
         {database.name(), "dbname=" + database.name(),
          "postgresql://postgres@127.0.0.1:" + port + "/" + database.name()})
    {
        for (const Words &words : std::vector<Words>{{"-d", conninfo, "status", "--json"},
                                                     {"status", "--json", "-d", conninfo}})
        {
            const Ran ran = ctl(elsewhere, words);
            EXPECT_EQ(ran.status, 0) << ran.err;
            EXPECT_EQ(ran.json()["database"], database.name());
        }
    }
}

TEST(Usage, ADatabaseWithoutTheExtensionExitsWithFiveAndSaysSo)
{
    const TestDatabase database(cluster(), TestDatabase::Extension::kNotInstalled);
    for (const Words &words :
         std::vector<Words>{{"status"}, {"emit", "a", "1", "b", "{}"}, {"tail"}})
    {
        const Ran ran = ctl(connection(cluster(), database.name()), words);
        EXPECT_EQ(ran.status, 5) << ran.err;
        EXPECT_NE(ran.err.find("not installed in the database \"" + database.name() + "\""),
                  std::string::npos)
            << ran.err;
        EXPECT_NE(ran.err.find("create extension outbox"), std::string::npos);
    }
}

// What it says to do can be done, and helps.
TEST(Usage, AnotherSchemaOfTheNameAndARenamedOneAreNamedWithTheStatementsThatHelp)
{
    const TestDatabase database(cluster(), TestDatabase::Extension::kNotInstalled);
    Db db = database.connect();
    for (const std::string before :
         {"create schema outbox", "alter schema outbox rename to \"My own\"",
          "alter schema outbox rename to mine; create schema outbox"})
    {
        SCOPED_TRACE(before);
        db.exec(before);
        for (const Words &words : std::vector<Words>{{"status"}, {"doctor"}})
        {
            const Ran ran = ctl(connection(cluster(), database.name()), words);
            EXPECT_EQ(ran.status, words[0] == "doctor" ? 4 : 5) << ran.out << ran.err;
            EXPECT_NE((ran.out + ran.err).find("rename to o"), std::string::npos)
                << ran.out << ran.err;
        }
        const Ran ran = ctl(connection(cluster(), database.name()), {"status", "--json"});
        const std::string hint = ran.error_json()["error"]["hint"];
        db.exec(hint.substr(hint.find(": ") + 2));
        EXPECT_EQ(ctl(connection(cluster(), database.name()), {"status"}).status, 0);
        db.exec("drop schema if exists other_outbox");
    }
}

class Rights : public CtlTest
{
};

TEST_F(Rights, ARoleWithoutThemExitsWithFiveAndWithThemItWorks)
{
    const std::string role = new_role();
    Ran ran = ctl_as(role, {"status"});
    EXPECT_EQ(ran.status, 5);
    EXPECT_NE(ran.err.find("may not use the schema outbox"), std::string::npos) << ran.err;

    db_.exec("grant usage on schema outbox to " + role);
    for (const Words &words : std::vector<Words>{
             {"status"}, {"pause"}, {"failed", "list"}, {"emit", "a", "1", "b", "{}"}})
    {
        ran = ctl_as(role, words);
        EXPECT_EQ(ran.status, 5) << words[0] << ran.err;
        EXPECT_NE(ran.err.find("42501"), std::string::npos) << ran.err;
        EXPECT_NE(ran.err.find("outboxctl doctor"), std::string::npos) << ran.err;
    }
}

// The grants that doctor prints are enough for the commands that it says they are for.
TEST_F(Rights, TheGrantsOfDoctorAreEnough)
{
    const std::string role = new_role();
    const Json findings = ctl({"doctor", "--role", role, "--json"}).json()["findings"];
    int granted = 0;
    for (const Json &finding : findings)
        if (finding["area"] == "rights" && !finding["remedy"].is_null())
        {
            db_.exec(finding["remedy"].get<std::string>());
            granted++;
        }
    EXPECT_EQ(granted, 5);
    for (const Words &words :
         std::vector<Words>{{"status"},
                            {"lag", "--sample", "0"},
                            {"pause"},
                            {"resume"},
                            {"failed", "list"},
                            {"failed", "retry", "--all", "--yes"},
                            {"replay", "--dry-run"},
                            {"replays", "list"},
                            {"emit", database_.type(), "1", "b", "{}", "--wait", "20"}})
    {
        const Ran ran = ctl_as(role, words);
        EXPECT_EQ(ran.status, 0) << words[0] << ": " << ran.err;
    }
    for (const Json &finding : ctl({"doctor", "--role", role, "--json"}).json()["findings"])
    {
        if (finding["area"] == "rights")
        {
            EXPECT_EQ(finding["level"], "ok") << finding;
        }
    }
}

TEST_F(Rights, TheGroupsAreEnoughForWhatIsSaidOfThem)
{
    const std::string role = new_role();
    db_.exec("select outbox.grant_monitor('" + role + "')");
    for (const Words &words :
         std::vector<Words>{{"status"}, {"lag", "--sample", "0"}, {"failed", "list"}})
    {
        const Ran ran = ctl_as(role, words);
        EXPECT_EQ(ran.status, 0) << words[0] << ": " << ran.err;
    }
    EXPECT_EQ(ctl_as(role, {"pause"}).status, 5);
    db_.exec("select outbox.revoke_monitor('" + role + "')");
    db_.exec("select outbox.grant_operator('" + role + "')");
    EXPECT_EQ(ctl_as(role, {"pause"}).status, 0);
    EXPECT_EQ(ctl_as(role, {"resume"}).status, 0);
}

TEST_F(CtlTest, AFullDiskIsAnError)
{
    Command command({"/bin/sh", "-c", "exec " + outboxctl() + " status >/dev/full"});
    command.environment = connection(cluster(), database_.name());
    const Finished finished = run(command);
    EXPECT_EQ(WEXITSTATUS(finished.status), 1);
    EXPECT_NE(finished.output.find("cannot write"), std::string::npos) << finished.output;
}

} // namespace

} // namespace outbox::test
