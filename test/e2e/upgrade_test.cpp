// ALTER EXTENSION outbox UPDATE while applications continue, as after an update of the package.
#include "servers.h"
#include "support/count.h"
#include "workload.h"

using namespace outbox::test;

namespace
{

std::vector<std::string>
released_versions(Db &db)
{
    const Result rows = db.exec(
        "select version from pg_available_extension_versions v join pg_available_extensions x "
        "using (name) where name = 'outbox' and version <> default_version");
    std::vector<std::string> versions;
    for (int row = 0; row < rows.rows(); ++row)
        versions.push_back(rows.text(row));
    return versions;
}

// The relay waits, with a backlog, until the update, and catches up while clients continue.
void
update_under_load(const std::string &version)
{
    OwnCluster server;
    TestDatabase database(server, TestDatabase::Extension::kNotInstalled);
    Db db = database.connect();
    db.exec("create extension outbox version '" + version + "'");
    ASSERT_TRUE(database.reaches_state("update_required"));

    Workload::Options options;
    options.transactions = 200;
    Workload workload(server, database, options);
    const int all = options.clients * options.transactions;
    ASSERT_TRUE(wait_until(std::chrono::seconds(60), [&] { return workload.done() >= all / 4; }));
    EXPECT_EQ(db.value("select count(*) from outbox.event_status where status <> 'NEW'"), "0");
    // Looking again is no reason to say it again.
    db.exec("select outbox.request_relay()");
    ASSERT_TRUE(database.reaches_state("update_required"));
    db.exec("alter extension outbox update");
    EXPECT_LT(workload.done(), all) << "the clients ended before the update";
    EXPECT_TRUE(database.reaches_state("running"));
    workload.finish();

    Consumer consumer(kafka().bootstrap(), {database.topic()});
    const Report report = check_delivery(db, consumer);
    EXPECT_TRUE(report.exact()) << report.summary();
    EXPECT_GT(report.events, 0U);
    EXPECT_EQ(count(server.log_text(), "outbox relay waits in database"), 1U) << server.log_text();
    EXPECT_TRUE(server.log_contains("Run ALTER EXTENSION outbox UPDATE."));
}

} // namespace

TEST(Upgrade, FromEachReleasedVersionUnderLoadLosesNothingAndKeepsTheOrder)
{
    Db db(cluster(), "postgres");
    const std::vector<std::string> versions = released_versions(db);
    ASSERT_FALSE(versions.empty());
    for (const std::string &version : versions)
    {
        SCOPED_TRACE("from " + version);
        update_under_load(version);
    }
}
