// The procedures of docs/recovery.md that have no test elsewhere: pg_upgrade, and dumps of single
// tables. Each ends with the counts of events compared. Dumps of whole databases, base backups and
// recovery to a point in time are in restore_test.cpp, failovers in failover_test.cpp.
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "faults.h"
#include "numbered_events.h"

using namespace outbox::test;

namespace
{

constexpr int kPublished = 40;
constexpr int kBacklog = 25;
constexpr auto kNothingComes = Milliseconds(1200);

// The check of docs/recovery.md.
constexpr const char *kCounts =
    "select concat_ws(' ', count(*), count(*) filter (where status = 'PUBLISHED'), "
    "count(*) filter (where status = 'NEW')) from outbox.event_status";

// Events that are published, and others that its relay was not told of Kafka for.
void
fill(OwnCluster &server, const TestDatabase &database)
{
    kafka().create_topic(database.topic());
    Db db = database.connect();
    emit_many(db, database.type(), 1, kPublished);
    ASSERT_EQ(db.value("select outbox.drain('30 s')"), "t");
    server.configure("outbox.bootstrap_servers", "");
    server.reload();
    ASSERT_TRUE(database.reaches_state("not_configured"));
    emit_many(db, database.type(), kPublished + 1, kPublished + kBacklog);
    ASSERT_EQ(db.value(kCounts), "65 40 25");
}

// Makes a dump in psql's format of what these options say, and gives back the file's name.
std::string
dump(const PgCluster &server, const std::string &database, const std::vector<std::string> &options)
{
    const std::string file = run_dir() / unique_name("dump.");
    std::vector<std::string> argv = {PgCluster::dump_program("pg_dump"), "--file=" + file,
                                     "--dbname=" + server.conninfo(database)};
    argv.insert(argv.end(), options.begin(), options.end());
    run_or_throw(Command(argv));
    return file;
}

void
restore(const PgCluster &server, const std::string &database, const std::string &file)
{
    run_or_throw(Command({PgCluster::dump_program("psql"), "--no-psqlrc", "--quiet",
                          "--set=ON_ERROR_STOP=1", "--single-transaction", "--file=" + file,
                          "--dbname=" + server.conninfo(database)}));
}

// initdb makes checksums since PostgreSQL 18, and pg_upgrade wants both clusters to be alike.
std::vector<std::string>
options_as_old(bool old_has_checksums, const PgCluster &fresh)
{
    const std::string help = run_or_throw(Command({fresh.own_program("initdb"), "--help"}));
    if (!old_has_checksums && help.find("--no-data-checksums") != std::string::npos)
        return {"--no-data-checksums"};
    return {};
}

std::string
bin_of(const PgCluster &server)
{
    return std::filesystem::path(server.own_program("postgres")).parent_path().string();
}

} // namespace

// To the same version, or to that of $OUTBOX_TEST_NEWER_PG_CONFIG, where outbox is installed too.
TEST(Procedures, PgUpgradeKeepsWhatIsPublishedAndWhatIsNotAndEachEventComesOnce)
{
    OwnCluster old(kFaultSettings);
    TestDatabase database(old);
    fill(old, database);
    const std::string old_version = Db(old, "postgres").value("show server_version");
    const bool checksums = Db(old, "postgres").value("show data_checksums") == "on";
    old.stop();

    const char *newer = std::getenv("OUTBOX_TEST_NEWER_PG_CONFIG");
    Settings settings = kFaultSettings;
    settings["outbox.bootstrap_servers"] = ""; // to look at it before anything is published
    PgCluster fresh("upgraded", newer != nullptr ? newer : "");
    fresh.init(settings, options_as_old(checksums, fresh));
    const std::filesystem::path home = fresh.data_dir().parent_path();
    Command upgrade({fresh.own_program("pg_upgrade"), "--old-bindir=" + bin_of(old),
                     "--new-bindir=" + bin_of(fresh), "--old-datadir=" + old.data_dir().string(),
                     "--new-datadir=" + fresh.data_dir().string(), "--username=postgres",
                     "--socketdir=" + fresh.socket_dir().string(), "--link"});
    upgrade.directory = home.string();
    upgrade.as_server_user = true;
    run_or_throw(upgrade);
    fresh.start();

    Db db(fresh, database.name());
    std::printf("upgraded from %s to %s\n", old_version.c_str(),
                db.value("show server_version").c_str());
    EXPECT_TRUE(wait_until(
        std::chrono::seconds(20),
        [&] { return db.value("select state from outbox.relay_status") == "not_configured"; }));
    EXPECT_EQ(db.value(kCounts), "65 40 25");
    fresh.configure("outbox.bootstrap_servers", kafka().bootstrap());
    fresh.reload();
    emit_many(db, database.type(), kPublished + kBacklog + 1, kPublished + kBacklog + 10);
    EXPECT_EQ(db.value("select outbox.drain('30 s')"), "t");
    EXPECT_EQ(db.value(kCounts), "75 75 0");
    Consumer consumer(kafka().bootstrap(), {database.topic()});
    const Report report = check_delivery(db, consumer);
    EXPECT_TRUE(report.exact()) << report.summary();
    EXPECT_EQ(fresh.new_crashes().size(), 0U);
    fresh.stop();
}

// The table of events without the position: nobody knows what of it is published, so nothing is,
// until the position follows.
TEST(Procedures, EventsDumpedAloneWaitForTheirPositionAndThenTheBacklogComesOnce)
{
    if (!PgCluster::can_dump())
        GTEST_SKIP() << kCannotDump;
    OwnCluster source(kFaultSettings);
    TestDatabase database(source);
    fill(source, database);
    // An application's tables stay out of it.
    const std::string application = "create table orders (id int primary key); "
                                    "insert into orders values (1)";
    database.connect().exec(application);
    const std::string events = dump(source, database.name(),
                                    {"--data-only", "--extension=outbox", "--schema=outbox",
                                     "--exclude-table-data=outbox.events_seq",
                                     "--exclude-table-data=outbox.relay_position"});
    const std::string position =
        dump(source, database.name(), {"--data-only", "--table=outbox.relay_position"});
    source.stop();

    Consumer consumer(kafka().bootstrap(), {database.topic()});
    TestDatabase target(cluster());
    Db db = target.connect();
    db.exec(application);
    emit_many(db, target.type(), 1, 3); // it has a past of its own
    EXPECT_EQ(db.value("select outbox.drain('20 s')"), "t");
    restore(cluster(), target.name(), events);
    EXPECT_EQ(
        db.value("select count(*) from outbox.events where aggregate_type = $1", database.type()),
        "65");
    ASSERT_TRUE(consumer.read_count(kPublished, std::chrono::seconds(20)));
    consumer.read_for(kNothingComes);
    EXPECT_EQ(consumer.records().size(), static_cast<size_t>(kPublished));
    EXPECT_EQ(db.value("select outbox.drain('1 ms')"), "f");

    restore(cluster(), target.name(), position);
    EXPECT_TRUE(consumer.read_count(kPublished + kBacklog, std::chrono::seconds(20)));
    EXPECT_EQ(db.value("select outbox.drain('20 s')"), "t");
    EXPECT_EQ(db.value(kCounts), "68 68 0");
    consumer.read_for(Milliseconds(300));
    EXPECT_EQ(consumer.records().size(), static_cast<size_t>(kPublished + kBacklog));
}

// Rows of an application come back without their events being emitted again.
TEST(Procedures, AnApplicationsTableIsDumpedWithoutOutboxAndRestoredWithoutEvents)
{
    TestDatabase database(cluster());
    Db db = database.connect();
    db.exec("create table orders (id int primary key, total numeric)");
    db.exec("create function emit_order() returns trigger language plpgsql as $$ begin "
            "perform outbox.emit('" +
            database.type() +
            "', new.id::text, 'order.created', to_jsonb(new)); return new; end $$");
    db.exec("create trigger emit after insert on orders for each row "
            "execute function emit_order()");
    db.exec("insert into orders select i, i * 10 from generate_series(1, 20) i");
    const std::string emitted = "select count(*) from outbox.events";
    ASSERT_EQ(db.value(emitted), "20");
    const std::string digest =
        "select md5(string_agg(o::text, ',' order by id)) from orders o"; // of all rows
    const std::string before = db.value(digest);

    TestDatabase elsewhere(cluster(), TestDatabase::Extension::kNotInstalled);
    restore(cluster(), elsewhere.name(),
            dump(cluster(), database.name(),
                 {"--table=orders", "--section=pre-data", "--section=data"}));
    Db there = elsewhere.connect();
    EXPECT_EQ(there.value(digest), before);
    EXPECT_EQ(there.value("select count(*) from pg_namespace where nspname = 'outbox'"), "0");

    const std::string rows =
        dump(cluster(), database.name(), {"--table=orders", "--data-only", "--disable-triggers"});
    db.exec("delete from orders");
    restore(cluster(), database.name(), rows);
    EXPECT_EQ(db.value(digest), before);
    EXPECT_EQ(db.value(emitted), "20");
    // Without --disable-triggers each row counts as new.
    db.exec("delete from orders");
    restore(cluster(), database.name(),
            dump(cluster(), elsewhere.name(), {"--table=orders", "--data-only"}));
    EXPECT_EQ(db.value(emitted), "40");
}
