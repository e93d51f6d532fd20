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

} // namespace

} // namespace outbox::test
