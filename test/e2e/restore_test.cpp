// Dumps, base backups and copied directories: what is published again, what is not, and when a
// person has to decide.
#include <csignal>
#include <filesystem>

#include "faults.h"
#include "numbered_events.h"
#include "real_kafka_test.h"
#include "small_topic.h"

using namespace outbox::test;

namespace
{

constexpr int kPublished = 120;
constexpr int kBacklog = 80;
constexpr auto kNothingComes = Milliseconds(1200);

// A cluster with events that are published, and others that wait because its relay was told of no
// Kafka.
struct Original
{
    Original() : server(kFaultSettings), database(server)
    {
        kafka().create_topic(database.topic());
        Db db = database.connect();
        emit_many(db, database.type(), 1, kPublished);
        wait_all_published(db);
        // The position must be in the table before it is dumped.
        EXPECT_TRUE(wait_until(std::chrono::seconds(10),
                               [&]
                               {
                                   return db.value(
                                              "select published_total from outbox.relay_status") ==
                                          std::to_string(kPublished);
                               }));
        server.configure("outbox.bootstrap_servers", "");
        server.reload();
        EXPECT_TRUE(database.reaches_state("not_configured"));
        emit_many(db, database.type(), kPublished + 1, kPublished + kBacklog);
    }

    OwnCluster server;
    TestDatabase database;
};

enum class Dump
{
    kPlain,
    kCustom,
    kPlainInOneTransaction,
    kCustomInOneTransaction
};

void
dump_and_restore(const PgCluster &source, const std::string &database, const PgCluster &fresh,
                 Dump kind)
{
    const bool plain = kind == Dump::kPlain || kind == Dump::kPlainInOneTransaction;
    const bool at_once =
        kind == Dump::kPlainInOneTransaction || kind == Dump::kCustomInOneTransaction;
    const std::string file = run_dir() / unique_name("dump.");
    const std::string warnings = run_or_throw(
        Command({PgCluster::dump_program("pg_dump"), plain ? "--format=plain" : "--format=custom",
                 "--file=" + file, "--dbname=" + source.conninfo(database)}));
    EXPECT_EQ(warnings, "");
    Db(fresh, "postgres").exec("create database restored");
    std::vector<std::string> argv;
    if (plain)
        argv = {PgCluster::dump_program("psql"),
                "--no-psqlrc",
                "--quiet",
                "--set=ON_ERROR_STOP=1",
                "--file=" + file,
                "--dbname=" + fresh.conninfo("restored")};
    else
        argv = {PgCluster::dump_program("pg_restore"), "--exit-on-error",
                "--dbname=" + fresh.conninfo("restored"), file};
    if (at_once)
        argv.insert(argv.begin() + 1, "--single-transaction");
    run_or_throw(Command(argv));
}

// The backlog goes out once, new events flow, and what was published before does not go out again.
void
expect_backlog_once(const char *fault, Dump kind)
{
    if (!PgCluster::can_dump())
        GTEST_SKIP() << kCannotDump;
    Original original;
    OwnCluster fresh(kFaultSettings);
    Consumer consumer(kafka().bootstrap(), {original.database.topic()});
    const auto restoring = Clock::now();
    dump_and_restore(original.server, original.database.name(), fresh, kind);

    Db db(fresh, "restored");
    emit_many(db, original.database.type(), kPublished + kBacklog + 1, kPublished + kBacklog + 50);
    const Report report = check_delivery(db, consumer);
    const Milliseconds recovery = since(restoring);
    EXPECT_EQ(report.events, static_cast<size_t>(kPublished + kBacklog + 50));
    EXPECT_TRUE(report.exact()) << report.summary();
    print_figures(fault, 1, report, {}, {recovery});
}

} // namespace

// Its relay has been there for long, and looks for restored rows once a second when nothing tells
// it of them.
TEST(Restore, WhatIsEmittedAtOnceAfterARestoreGoesOutAfterWhatWasRestored)
{
    if (!PgCluster::can_dump())
        GTEST_SKIP() << kCannotDump;
    using Arguments = std::vector<std::string>;
    for (const Arguments &arguments : {Arguments{"--section=data"},
                                       {"--section=data", "--jobs=4"},
                                       {"--data-only", "--disable-triggers"},
                                       {"--section=data", "--single-transaction"}})
    {
        SCOPED_TRACE(testing::PrintToString(arguments));
        Original original;
        OwnCluster fresh(kFaultSettings);
        Consumer consumer(kafka().bootstrap(), {original.database.topic()});
        const std::string file = run_dir() / unique_name("dump.");
        run_or_throw(
            Command({PgCluster::dump_program("pg_dump"), "--format=custom", "--file=" + file,
                     "--dbname=" + original.server.conninfo(original.database.name())}));
        Db(fresh, "postgres").exec("create database restored");
        const auto restore = [&](Arguments how)
        {
            how.insert(how.begin(), {PgCluster::dump_program("pg_restore"), "--exit-on-error",
                                     "--dbname=" + fresh.conninfo("restored")});
            how.push_back(file);
            run_or_throw(Command(how));
        };
        restore({"--section=pre-data"});
        Db db(fresh, "restored");
        ASSERT_TRUE(
            wait_until(std::chrono::seconds(20), [&]
                       { return db.value("select state from outbox.relay_status") == "running"; }));
        restore(arguments);
        emit_many(db, original.database.type(), kPublished + kBacklog + 1,
                  kPublished + kBacklog + 50);
        const Report report = check_delivery(db, consumer);
        EXPECT_EQ(report.events, static_cast<size_t>(kPublished + kBacklog + 50));
        EXPECT_TRUE(report.exact()) << report.summary();
    }
}

TEST(Restore, APlainDumpRestoredIntoAFreshClusterPublishesTheBacklogOnceAndNewEvents)
{
    expect_backlog_once("pg_dump, plain, fresh cluster", Dump::kPlain);
}

TEST(Restore, ACustomDumpRestoredIntoAFreshClusterPublishesTheBacklogOnceAndNewEvents)
{
    expect_backlog_once("pg_dump, custom, fresh cluster", Dump::kCustom);
}

TEST(Restore, APlainDumpRestoredInOneTransactionPublishesTheBacklogOnceAndNewEvents)
{
    expect_backlog_once("pg_dump, plain, one transaction", Dump::kPlainInOneTransaction);
}

TEST(Restore, ACustomDumpRestoredInOneTransactionPublishesTheBacklogOnceAndNewEvents)
{
    expect_backlog_once("pg_dump, custom, one transaction", Dump::kCustomInOneTransaction);
}

// An event that Kafka refused, and one that waits behind it, stay what they are.
REAL_KAFKA_TEST(Restore, EventsThatWereSetAsideAreStillSetAsideAfterARestoreAndCanBeRetried)
{
    if (!PgCluster::can_dump())
        GTEST_SKIP() << kCannotDump;
    for (const Dump kind : {Dump::kPlain, Dump::kCustomInOneTransaction})
    {
        OwnCluster server(kFaultSettings);
        SmallTopic small(server, {{"outbox.max_attempts", "1"}});
        const std::string large = small.emit_too_large("blocked");
        ASSERT_TRUE(small.reaches_status(large, "FAILED")) << small.describe();
        const std::string behind = small.emit("blocked");
        const std::string free = small.emit("free");
        ASSERT_TRUE(small.arrive({free}));
        ASSERT_TRUE(
            wait_until(std::chrono::seconds(10), [&] { return small.deliveries("WAITING") == 1; }))
            << small.describe();
        ASSERT_EQ(small.db().value("select outbox.wait_published($1)", free), "t");
        server.configure("outbox.bootstrap_servers", "");
        server.reload();
        ASSERT_TRUE(small.database().reaches_state("not_configured"));

        OwnCluster fresh(kFaultSettings);
        dump_and_restore(server, small.database().name(), fresh, kind);
        Db db(fresh, "restored");
        ASSERT_TRUE(wait_until(
            std::chrono::seconds(20),
            [&] { return db.value("select count(*) from outbox.events where xid < 0") == "0"; }));
        EXPECT_EQ(db.value("select count(*) from outbox.dead_letters where waiting_behind = 1"),
                  "1");
        small.expect_only("blocked", {});

        small.raise_limit();
        db.exec("select outbox.retry($1)", large);
        EXPECT_TRUE(small.arrive({large, behind}));
        small.expect_only("blocked", {large, behind});
        small.expect_only("free", {free});
    }
}

TEST(Restore, ABaseBackupStartedBesideTheOriginalPublishesNothingUntilItIsTold)
{
    OwnCluster original(kFaultSettings);
    TestDatabase database(original);
    kafka().create_topic(database.topic());
    Consumer consumer(kafka().bootstrap(), {database.topic()});
    Db db = database.connect();
    emit_many(db, database.type(), 1, 20);
    wait_all_published(db);
    PgCluster copy("copy");
    copy.copy_from(original);
    copy.start();

    Db there(copy, database.name());
    emit_many(there, database.type(), 21, 30);
    EXPECT_TRUE(
        wait_until(std::chrono::seconds(20), [&]
                   { return there.value("select state from outbox.relay_status") == "stopped"; }))
        << copy.log_text();
    EXPECT_NE(there.value("select last_error from outbox.relay_status").find("copy"),
              std::string::npos);
    consumer.read_for(kNothingComes);
    EXPECT_EQ(consumer.records().size(), 20U) << "the copy published";

    // The original continues meanwhile.
    emit_many(db, database.type(), 21, 25);
    EXPECT_TRUE(consumer.read_count(25, std::chrono::seconds(20)));
    original.stop();
    EXPECT_EQ(there.value("select outbox.adopt_position()"), "t");
    EXPECT_TRUE(consumer.read_until(std::chrono::seconds(30),
                                    [&](const std::vector<Record> &records)
                                    { return records.size() >= 35U; }));
    const Report report = check_delivery(there, consumer);
    EXPECT_TRUE(report.lost.empty()) << report.summary();
    EXPECT_EQ(report.invented.size(), 5U) << "those that only the original had";
}

namespace
{

// Goes back to `backup` after events were published that it does not have, lets `adopt` decide, and
// sees that none of its own is lost although transaction ids and numbers are given anew.
void
expect_none_lost_after_going_back(const char *fault, PgCluster &backup, OwnCluster &original,
                                  const TestDatabase &database, Consumer &consumer, int in_backup)
{
    Db db = database.connect();
    emit_many(db, database.type(), 1001, 1040); // gone when the backup takes over
    wait_all_published(db);
    ASSERT_TRUE(consumer.read_count(static_cast<size_t>(in_backup) + 40, std::chrono::seconds(20)));
    original.kill9();

    backup.start();
    const auto started = Clock::now();
    Db there(backup, database.name());
    ASSERT_TRUE(wait_until(std::chrono::seconds(30),
                           [&] { return there.value("select pg_is_in_recovery()") == "f"; }));
    there.exec("select outbox.adopt_position()");
    emit_many(there, database.type(), 2001, 2060);
    const Report report = check_delivery(there, consumer);
    EXPECT_EQ(report.events, static_cast<size_t>(in_backup) + 60);
    EXPECT_TRUE(report.lost.empty()) << report.summary() << backup.log_text();
    EXPECT_TRUE(report.misordered.empty()) << report.summary();
    EXPECT_EQ(report.invented.size(), 40U) << "those that going back has lost";
    EXPECT_LE(report.duplicates, static_cast<size_t>(in_backup));
    print_figures(fault, 1, report, {}, {since(started)});
}

} // namespace

TEST(Restore, ACopiedDataDirectoryPutBackLosesNoneOfItsOwnEvents)
{
    OwnCluster original(kFaultSettings);
    TestDatabase database(original);
    kafka().create_topic(database.topic());
    Consumer consumer(kafka().bootstrap(), {database.topic()});
    {
        Db db = database.connect();
        emit_many(db, database.type(), 1, 60);
        wait_all_published(db);
    }
    original.stop();
    PgCluster backup("snapshot");
    backup.copy_files_from(original);
    original.start();
    expect_none_lost_after_going_back("copied data directory put back", backup, original, database,
                                      consumer, 60);
}

TEST(Restore, PointInTimeRecoveryLosesNoneOfItsOwnEvents)
{
    const std::filesystem::path archive = run_dir() / unique_name("archive.");
    std::filesystem::create_directory(archive);
    give_to_server_user(archive);
    Settings settings = kFaultSettings;
    settings["archive_mode"] = "on";
    settings["archive_command"] = "cp %p " + archive.string() + "/%f";
    OwnCluster original(settings);
    TestDatabase database(original);
    kafka().create_topic(database.topic());
    Consumer consumer(kafka().bootstrap(), {database.topic()});
    Db db = database.connect();
    emit_many(db, database.type(), 1, 30);
    wait_all_published(db);

    PgCluster backup("restored");
    backup.copy_from(original, {{"restore_command", "cp " + archive.string() + "/%f %p"},
                                {"recovery_target_name", "then"},
                                {"recovery_target_action", "promote"}});
    write_file(backup.data_dir() / "recovery.signal", "");
    give_to_server_user(backup.data_dir() / "recovery.signal");
    emit_many(db, database.type(), 31, 60);
    db.exec("select pg_create_restore_point('then')");
    const std::string segment = db.value("select pg_walfile_name(pg_switch_wal())");
    ASSERT_TRUE(wait_until(std::chrono::seconds(30),
                           [&] { return std::filesystem::exists(archive / segment); }));
    expect_none_lost_after_going_back("point-in-time recovery", backup, original, database,
                                      consumer, 60);
}
