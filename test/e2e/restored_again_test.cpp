// Dumps of databases that were restored themselves, or over the very database, and what is emitted
// at once after a restore.
#include "merge_scene.h"

using namespace outbox::test;

namespace
{

// Of a dump of a database that has rows of another one, which nobody has settled: nothing of it is
// called published, and nothing goes out before a person has said so. Then all of it does.
void
expect_waits_for_a_person(const std::string &dump, const Ids &ids)
{
    OwnCluster server(kFaultSettings);
    restore_whole(dump, server);
    Db db(server, "restored");
    EXPECT_TRUE(wait_until(std::chrono::seconds(20),
                           [&]
                           {
                               return db.value("select coalesce(last_error, '') ~ 'was not "
                                               "settled' from outbox.relay_status") == "t";
                           }))
        << db.value("select r::text from outbox.relay_status r");
    EXPECT_EQ(db.value("select outbox.drain('1500 ms')"), "f");
    for (const std::string &id : ids)
        EXPECT_EQ(status_of(db, id), "NEW");
    db.exec("select outbox.adopt_position()");
    for (const std::string &id : ids)
        EXPECT_EQ(db.value("select outbox.wait_published($1, '30 s')", id), "t");
}

} // namespace

// Back to a backup of the very database, in place.
TEST(RestoredAgain, ADumpThatIsRestoredOverItsOwnDatabaseIsSettled)
{
    if (!PgCluster::can_dump())
        GTEST_SKIP() << kCannotDump;
    OwnCluster server(kFaultSettings);
    for (const bool at_once : {true, false})
        for (const bool emits : {false, true})
        {
            SCOPED_TRACE(std::to_string(at_once) + std::to_string(emits));
            TestDatabase database(server);
            kafka().create_topic(database.topic());
            Consumer consumer(kafka().bootstrap(), {database.topic()});
            const std::string file = run_dir() / unique_name("dump.");
            Ids ids;
            {
                Db db = database.connect();
                ids = emit_several(db, database.type(), "key", 20);
                ASSERT_EQ(db.value("select outbox.drain('20 s')"), "t");
                run_or_throw(
                    Command({PgCluster::dump_program("pg_dump"), "--clean", "--if-exists",
                             "--file=" + file, "--dbname=" + server.conninfo(database.name())}));
            }
            Command command({PgCluster::dump_program("psql"), "--no-psqlrc", "--quiet",
                             "--set=ON_ERROR_STOP=1", "--file=" + file,
                             "--dbname=" + server.conninfo(database.name())});
            if (at_once)
                command.argv.insert(command.argv.begin() + 1, "--single-transaction");
            run_or_throw(command);
            Db db = database.connect();
            if (emits)
                ids.push_back(emit_several(db, database.type(), "key", 1).front());
            for (const std::string &id : ids)
                EXPECT_EQ(db.value("select outbox.wait_published($1, '30 s')", id), "t")
                    << db.value("select r::text from outbox.relay_status r");
            EXPECT_TRUE(database.reaches_state("running"));
            EXPECT_EQ(db.value("select outbox.drain('20 s')"), "t");
            EXPECT_TRUE(consumer.read_count(ids.size(), std::chrono::seconds(20)));
            consumer.read_for(Milliseconds(300));
            const std::multiset<std::string> came = arrived(consumer);
            EXPECT_EQ(std::set<std::string>(came.begin(), came.end()),
                      std::set<std::string>(ids.begin(), ids.end()));
            EXPECT_LE(came.size(), ids.size() + 1); // that of the emit, by the process that ends
        }
}

// One that was restored where no relay runs, and used.
TEST(RestoredAgain, ADumpOfADatabaseThatHasNotSettledItsOwnRestoreWaitsForAPerson)
{
    if (!PgCluster::can_dump())
        GTEST_SKIP() << kCannotDump;
    Source source;
    Settings settings = kFaultSettings;
    settings["shared_preload_libraries"] = "";
    OwnCluster without_relay(settings);
    restore_whole(source.custom, without_relay);
    Ids ids;
    {
        Db db(without_relay, "restored");
        ids = emit_several(db, source.database.type(), "key-a", 5);
    }
    ids.insert(ids.end(), source.unpublished.begin(), source.unpublished.end());
    expect_waits_for_a_person(dump_of(without_relay, "restored"), ids);
}

// One that holds back events of another database, as their position is missing.
TEST(RestoredAgain, ADumpOfADatabaseThatHoldsEventsOfAnotherBackWaitsForAPerson)
{
    if (!PgCluster::can_dump())
        GTEST_SKIP() << kCannotDump;
    Source source;
    OwnCluster server(kFaultSettings);
    TestDatabase database(server);
    Db db = database.connect();
    (void) emit_several(db, database.type(), "k", 50);
    ASSERT_EQ(db.value("select outbox.drain('20 s')"), "t");
    run_or_throw(Command({PgCluster::dump_program("pg_restore"), "--exit-on-error",
                          "--single-transaction", "--dbname=" + server.conninfo(database.name()),
                          dump_of(source.server, source.database.name(),
                                  {"--data-only", "--extension=outbox", "--schema=outbox",
                                   "--exclude-table-data=outbox.events_seq",
                                   "--exclude-table-data=outbox.relay_position"})}));
    EXPECT_EQ(status_of(db, source.unpublished.front()), "NEW");
    expect_waits_for_a_person(dump_of(server, database.name()), source.unpublished);
}

TEST(RestoredAgain, ADumpOfARestoredDatabaseIsRestoredLikeAnyOther)
{
    if (!PgCluster::can_dump())
        GTEST_SKIP() << kCannotDump;
    Source source;
    Consumer consumer(kafka().bootstrap(), {source.database.topic()});
    Ids later = source.unpublished;
    std::string dump = source.custom;
    for (int generation = 1; generation <= 2; ++generation)
    {
        SCOPED_TRACE(generation);
        OwnCluster server(kFaultSettings);
        restore_whole(dump, server);
        Db db(server, "restored");
        for (const std::string &id : later)
            ASSERT_EQ(db.value("select outbox.wait_published($1, '30 s')", id), "t")
                << db.value("select last_error from outbox.relay_status");
        server.configure("outbox.bootstrap_servers", "");
        server.reload();
        ASSERT_TRUE(wait_until(
            std::chrono::seconds(20),
            [&] { return db.value("select state from outbox.relay_status") == "not_configured"; }))
            << db.value("select state || coalesce(last_error, '') from outbox.relay_status");
        for (const Ids &settled : {source.published, later})
            for (const std::string &id : settled)
                EXPECT_EQ(status_of(db, id), "PUBLISHED");
        EXPECT_EQ(status_of(db, source.failed), "FAILED");
        EXPECT_EQ(
            db.value("select state from outbox.deliveries where event_id = $1", source.waiting),
            "WAITING");
        later = emit_several(db, source.database.type(), "key-a", 3);
        dump = dump_of(server, "restored");
    }
    OwnCluster last(kFaultSettings);
    restore_whole(dump, last);
    Db db(last, "restored");
    for (const std::string &id : later)
        ASSERT_EQ(db.value("select outbox.wait_published($1, '30 s')", id), "t");
    expect_settled(db, source, consumer);
    std::multiset<std::string> ids = arrived(consumer);
    for (const std::string &id : later)
        EXPECT_EQ(ids.count(id), 1U);
    EXPECT_EQ(consumer.records().size(), 5U + 4U + 3U + 3U + 2U + 3U);
}

// Numbers of the dump's database mean nothing here, and yet what is emitted later has larger ones.
TEST(RestoredAgain, WhatIsEmittedAtOnceInADatabaseWithoutEventsComesAfterThoseOfAnother)
{
    if (!PgCluster::can_dump())
        GTEST_SKIP() << kCannotDump;
    OwnCluster server(kFaultSettings);
    OwnCluster other(kFaultSettings);
    TestDatabase source(server);
    kafka().create_topic(source.topic());
    server.configure("outbox.bootstrap_servers", "");
    server.reload();
    ASSERT_TRUE(source.reaches_state("not_configured"))
        << source.connect().value("select r::text from outbox.relay_status r");
    Db from = source.connect();
    Ids ids = emit_several(from, source.type(), "key", 20);
    const std::string file = run_dir() / unique_name("dump.");
    run_or_throw(Command({PgCluster::dump_program("pg_dump"), "--data-only", "--extension=outbox",
                          "--schema=outbox", "--exclude-table-data=outbox.events_seq",
                          "--file=" + file, "--dbname=" + server.conninfo(source.name())}));
    size_t records = 0;
    Consumer consumer(kafka().bootstrap(), {source.topic()});
    for (const bool prepared : {false, true})
    {
        SCOPED_TRACE(prepared);
        TestDatabase database(other);
        ASSERT_TRUE(database.reaches_state("running"));
        Db db = database.connect();
        Command command({PgCluster::dump_program("psql"), "--no-psqlrc", "--quiet",
                         "--set=ON_ERROR_STOP=1", "--dbname=" + other.conninfo(database.name()),
                         "--command=begin", "--file=" + file});
        if (prepared)
            command.argv.insert(command.argv.end(), {"--command=prepare transaction 'restore'",
                                                     "--command=commit prepared 'restore'"});
        else
            command.argv.push_back("--command=commit");
        run_or_throw(command);
        Ids all = ids;
        for (const std::string &id : emit_several(db, source.type(), "key", 3))
            all.push_back(id);
        ASSERT_TRUE(consumer.read_count(records + all.size(), std::chrono::seconds(20)));
        Ids came;
        for (size_t i = records; i < consumer.records().size(); i++)
            came.push_back(consumer.records()[i].header("id").value_or(""));
        EXPECT_EQ(came, all);
        records = consumer.records().size();
    }
}
