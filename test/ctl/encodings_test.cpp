// outboxctl in databases of other encodings.
#include "ctl.h"

namespace outbox::test
{

namespace
{

// A reason, say, that another client has put there: EUC_JP has characters that UTF-8 has not.
TEST(Encodings, ATextThatHasNoUtf8DoesNotHideTheOthers)
{
    const std::string name = unique_name("euc_");
    Db admin(cluster(), "postgres");
    admin.exec("create database " + name + " encoding euc_jp locale 'C' template template0");
    {
        Db db(cluster(), name);
        db.exec("create extension outbox");
        db.exec("select outbox.pause(convert_from('\\xa9a1', 'EUC_JP') || ' why')");
        db.exec("select outbox.replay(aggregate_id => convert_from('\\xa9a1', 'EUC_JP'))");
    }
    const Environment environment = connection(cluster(), name);
    Ran ran = ctl(environment, {"status"});
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_NE(ran.out.find("\\xa9\\xa1 why"), std::string::npos) << ran.out;
    ran = ctl(environment, {"status", "--json"});
    EXPECT_EQ(ran.json()["pause"]["reason"], "\uFFFD\uFFFD why");
    ran = ctl(environment, {"replays", "list"});
    EXPECT_NE(ran.out.find("--id \\xa9\\xa1"), std::string::npos) << ran.out << ran.err;
    // What is sent is never taken for bytes.
    ran = ctl(environment, {"emit", "order", "\xe2\x82\xac", "x", "{}"});
    EXPECT_NE(ran.err.find("22P05"), std::string::npos) << ran.err;
    admin.exec("drop database " + name + " with (force)");
}

// PostgreSQL converts each other encoding of a database.
TEST(Encodings, ADatabaseThatHasNoWayToUtf8AnswersInItsBytes)
{
    const std::string name = unique_name("mule_");
    Db admin(cluster(), "postgres");
    admin.exec("create database " + name + " encoding mule_internal locale 'C' template template0");
    const Environment environment = connection(cluster(), name);
    Ran ran = ctl(environment, {"doctor"});
    EXPECT_EQ(ran.err, "");
    EXPECT_NE(ran.out.find("create extension outbox"), std::string::npos) << ran.out;
    {
        Db db(cluster(), name);
        db.exec("create extension outbox");
        db.exec("select outbox.pause(convert_from('\\x81e9', 'MULE_INTERNAL') || ' why')");
    }
    EXPECT_EQ(ctl(environment, {"emit", "order", "1", "placed", "{}"}).status, 0);
    ran = ctl(environment, {"emit", "order", "\xe2\x82\xac", "placed", "{}"});
    EXPECT_NE(ran.err.find("only ASCII can be sent to it (0A000)"), std::string::npos) << ran.err;
    ran = ctl(environment, {"status"});
    EXPECT_NE(ran.out.find("\\x81\\xe9 why"), std::string::npos) << ran.out << ran.err;
    EXPECT_EQ(ctl(environment, {"status", "--json"}).json()["backlog_events"], 1);
    admin.exec("drop database " + name + " with (force)");
    // A host of that name is none of it.
    ran = ctl(environment, {"status", "-d", "host=MULE_INTERNAL.invalid"});
    EXPECT_EQ(ran.status, 3);
    EXPECT_NE(ran.err.find("MULE_INTERNAL.invalid"), std::string::npos) << ran.err;
}

// Roles belong to all databases, so a database may have another encoding than the one where a role
// was made.
TEST(Encodings, ARoleWhoseNameIsInAnotherEncodingIsExamined)
{
    const std::string foreign = unique_name("bytes_");
    const std::string role = unique_name("r\xe4l_");
    Db admin(cluster(), "postgres");
    admin.exec("create database " + foreign + " encoding sql_ascii locale 'C' template template0");
    Db there(cluster(), foreign);
    there.exec("set client_encoding = sql_ascii");
    there.exec("create role \"" + role + "\" login");
    {
        const TestDatabase database(cluster());
        const Environment environment = connection(cluster(), database.name(), role);
        const Ran ran = ctl(environment, {"doctor"});
        EXPECT_EQ(ran.err, "");
        EXPECT_NE(ran.out.find("the name of this role is in another encoding"), std::string::npos)
            << ran.out;
        EXPECT_NE(ran.out.find("may not emit"), std::string::npos) << ran.out;
        EXPECT_EQ(ran.out.find("invalid byte sequence"), std::string::npos) << ran.out;
        EXPECT_EQ(ran.out.find('\xe4'), std::string::npos) << ran.out;
        const Json report = ctl(environment, {"doctor", "--json"}).json();
        EXPECT_FALSE(report["findings"].empty());
        EXPECT_EQ(ctl(environment, {"status"}).status, 5);
    }
    there.exec("drop role \"" + role + "\"");
    there = Db(cluster(), "postgres");
    admin.exec("drop database " + foreign + " with (force)");
}

} // namespace

} // namespace outbox::test
