// Settings that come and go while the relay runs.
#include "servers.h"

using namespace outbox::test;

namespace
{

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

    change(database, "set outbox.kafka_config = 'no.such.property=1'");
    ASSERT_TRUE(relay_becomes(database, "config_error like '%no.such.property%'"));
    EXPECT_EQ(db.value("select state from outbox.relay_status"), "running");

    change(database, "reset outbox.kafka_config");
    EXPECT_TRUE(relay_becomes(database, "state = 'running' and config_error is null"));
    const std::string id = db.value("select outbox.emit($1, 'k', 'made', '{}')", database.type());
    EXPECT_EQ(db.value("select outbox.wait_published($1, '20 s')", id), "t");
}
