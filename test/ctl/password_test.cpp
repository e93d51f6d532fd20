// A server that wants a password.
#include "ctl.h"
#include "pty.h"

namespace outbox::test
{

namespace
{

class Password : public testing::Test
{
protected:
    Password()
    {
        const auto rules = server_.data_dir() / "pg_hba.conf";
        write_file(rules, "host all guarded 127.0.0.1/32 scram-sha-256\n" + read_file(rules));
        Db db = database_.connect();
        db.exec("set password_encryption = 'scram-sha-256'"); // it was md5 before PostgreSQL 14
        db.exec("create role guarded superuser login password 'open sesame'");
        server_.reload();
    }

    Environment environment() const
    {
        Environment all = connection(server_, database_.name(), "guarded");
        all["PGPASSFILE"] = "/dev/null";
        return all;
    }

    OwnCluster server_;
    TestDatabase database_{server_};
};

TEST_F(Password, IsAskedForOnATerminalWithoutAnEcho)
{
    Pty terminal({outboxctl(), "status"}, environment());
    const termios before = terminal.settings();
    ASSERT_TRUE(terminal.shows("Password for user guarded: ")) << terminal.output();
    ASSERT_TRUE(wait_until(std::chrono::seconds(5),
                           [&] { return (terminal.settings().c_lflag & ECHO) == 0; }));
    terminal.type("xyz\x15open sesamy\x7f"
                  "e\n"); // with corrections
    EXPECT_EQ(terminal.ends(std::chrono::seconds(10)), 0) << terminal.output();
    EXPECT_NE(terminal.output().find("Published"), std::string::npos) << terminal.output();
    EXPECT_EQ(terminal.output().find("sesame"), std::string::npos) << terminal.output();
    EXPECT_TRUE(same(before, terminal.settings()));
}

TEST_F(Password, CtrlCAtTheQuestionEndsItAndTheEchoIsBack)
{
    Pty terminal({outboxctl(), "status"}, environment());
    const termios before = terminal.settings();
    ASSERT_TRUE(terminal.shows("Password for user guarded: ")) << terminal.output();
    ASSERT_TRUE(wait_until(std::chrono::seconds(5),
                           [&] { return (terminal.settings().c_lflag & ECHO) == 0; }));
    terminal.type("ope\3");
    EXPECT_EQ(terminal.ends(std::chrono::seconds(5)), 130) << terminal.output();
    EXPECT_TRUE(same(before, terminal.settings()));
}

TEST_F(Password, WithoutATerminalItIsAnErrorAtOnce)
{
    const Ran ran = ctl(environment(), {"status"});
    EXPECT_EQ(ran.status, 3);
    EXPECT_NE(ran.err.find("no password supplied"), std::string::npos) << ran.err;
    Environment wrong = environment();
    wrong["PGPASSWORD"] = "close sesame";
    EXPECT_EQ(ctl(wrong, {"status"}).status, 3);
}

} // namespace

// Wherever a connection string stands.
TEST(Secret, IsNotQuotedFromAWrongPlace)
{
    const Environment nowhere = {{"PGHOST", "/nonexistent"}};
    for (const Words &words :
         {Words{"--dbnam=postgresql://u:SeCrEt@h/db", "status"},
          Words{"status", "--password=SeCrEt"}, Words{"status", "-d", "u:SeCrEt@h/db"},
          Words{"--json", "status", "-d", "u:SeCrEt@h/db"}, Words{"status", "u:SeCrEt@h/db"},
          Words{"status", "--sample=postgresql://u:SeCrEt@h/db"}})
    {
        const Ran ran = ctl(nowhere, words);
        EXPECT_NE(ran.status, 0);
        EXPECT_EQ((ran.out + ran.err).find("SeCrEt"), std::string::npos) << ran.out << ran.err;
    }
    EXPECT_NE(ctl(nowhere, {"status", "--bogus=1"}).err.find("--bogus"), std::string::npos);
}

} // namespace outbox::test
