// Dumps whose tables come in any order, into databases that have events of their own: what was set
// aside stays so, what was not published is, once, and nothing else counts as published.
#include <algorithm>
#include <fstream>

#include "merge_scene.h"

#include "support/seed.h"

using namespace outbox::test;

// As pg_restore -j and -L do. Each table comes in a transaction of its own, and the relay looks in
// between.
TEST(Merge, TablesOfADumpMayComeInAnyOrder)
{
    if (!PgCluster::can_dump())
        GTEST_SKIP() << kCannotDump;
    Source source;
    OwnCluster fresh(kFaultSettings);
    Db(fresh, "postgres").exec("create database restored");
    std::string definitions;
    std::vector<std::string> data;
    split_contents(source.custom, &definitions, &data);
    std::mt19937 random(choose_seed());
    std::shuffle(data.begin(), data.end(), random);
    // What was set aside comes last half of the time.
    if (random() % 2 == 0)
        std::stable_partition(data.begin(), data.end(),
                              [](const std::string &line)
                              { return line.find(" deliveries ") == std::string::npos; });
    pg_restore(source.custom, fresh, "restored", definitions);
    Db db(fresh, "restored");
    ASSERT_TRUE(
        wait_until(std::chrono::seconds(20),
                   [&] { return db.value("select state from outbox.relay_status") == "running"; }));
    Consumer consumer(kafka().bootstrap(), {source.database.topic()});
    for (const std::string &line : data)
    {
        SCOPED_TRACE(line);
        pg_restore(source.custom, fresh, "restored", line + "\n");
        if (line.find("events_0 ") != std::string::npos ||
            line.find("position") != std::string::npos)
            consumer.read_for(Milliseconds(1300)); // the relay looks once a second
        for (const std::string &id : {source.failed, source.waiting, source.behind})
            EXPECT_EQ(db.value("select count(*) from outbox.event_status "
                               "where id = $1 and status = 'PUBLISHED'",
                               id),
                      "0");
    }
    expect_settled(db, source, consumer);
    EXPECT_EQ(db.value("select count(*) from outbox.restored_deliveries"), "0");
    EXPECT_EQ(db.value("select count(*) from outbox.dump_rows"), "480");
} // namespace )

// Two databases become one, as docs/recovery.md says. Both counted from 1.
TEST(Merge, EventsOfBothDatabasesThatHaveTheSameNumbersKeepWhatIsTheirs)
{
    if (!PgCluster::can_dump())
        GTEST_SKIP() << kCannotDump;
    Source source;
    TestDatabase target(cluster());
    kafka().create_topic(target.topic());
    Db db = target.connect();
    db.exec("select outbox.pause('until both are there')");
    ASSERT_TRUE(target.reaches_state("paused"));
    const Ids own = emit_several(db, target.type(), "key-own", 12);
    merge_into(source, target, "outbox.events_seq");
    for (const std::string &id : own)
        EXPECT_EQ(status_of(db, id), "NEW");
    db.exec("select outbox.resume()");
    for (const std::string &id : own)
        EXPECT_EQ(db.value("select outbox.wait_published($1, '20 s')", id), "t");
    Consumer locals(kafka().bootstrap(), {target.topic()});
    EXPECT_TRUE(locals.read_count(own.size(), std::chrono::seconds(20)));
    Consumer consumer(kafka().bootstrap(), {source.database.topic()});
    expect_settled(db, source, consumer);
}

// Then the sequence is set back, in a database in which somebody has not committed what he has
// emitted.
TEST(Merge, TheSequenceOfADumpIsNotThatOfADatabaseThatHasEvents)
{
    if (!PgCluster::can_dump())
        GTEST_SKIP() << kCannotDump;
    Source source;
    TestDatabase target(cluster());
    kafka().create_topic(target.topic());
    Db db = target.connect();
    Ids own = emit_several(db, target.type(), "key-own", 100);
    Db open = target.connect();
    open.exec("begin");
    const Ids late = emit_several(open, target.type(), "key-late", 20);
    merge_into(source, target, "outbox.no_sequence");
    for (const std::string &id : source.unpublished)
        ASSERT_EQ(db.value("select outbox.wait_published($1, '20 s')", id), "t");
    open.exec("commit");
    own.push_back(emit_several(db, target.type(), "key-own", 1).front());
    for (const Ids &ids : {own, late})
        for (const std::string &id : ids)
            ASSERT_EQ(db.value("select outbox.wait_published($1, '20 s')", id), "t");
    Consumer consumer(kafka().bootstrap(), {source.database.topic()});
    expect_settled(db, source, consumer);
    // What was published before the dump keeps its number, which nothing is found by.
    EXPECT_EQ(db.value("select count(*) from outbox.events e join outbox.events f using (seq) "
                       "where e.id < f.id and e.xid <> 0 and f.xid <> 0"),
              "0");
    EXPECT_EQ(db.value("select count(*) from outbox.events e join outbox.deliveries d using (seq) "
                       "where e.id <> d.event_id and e.xid <> 0"),
              "0");
    Consumer locals(kafka().bootstrap(), {target.topic()});
    EXPECT_TRUE(locals.read_count(own.size() + late.size(), std::chrono::seconds(20)));
    EXPECT_EQ(db.column("select id from outbox.events where aggregate_type = $1 and aggregate_id = "
                        "'key-own' order by seq",
                        target.type()),
              own);
}

// The rows of a first restore are kept for the retention, and are in the next dumps: settled ones
// have no transaction id.
// Rows that nobody stamps would never be published.
TEST(Merge, ADumpWithDisabledTriggersIsRestoredLikeAnyOther)
{
    if (!PgCluster::can_dump())
        GTEST_SKIP() << kCannotDump;
    Source source;
    OwnCluster fresh(kFaultSettings);
    Db(fresh, "postgres").exec("create database restored");
    Db db(fresh, "restored");
    db.exec("create extension outbox");
    run_or_throw(
        Command({PgCluster::dump_program("pg_restore"), "--exit-on-error", "--data-only",
                 "--disable-triggers", "--dbname=" + fresh.conninfo("restored"), source.custom}));
    EXPECT_EQ(db.value("select string_agg(distinct tgenabled::text, '') from pg_trigger "
                       "where tgname ~ 'before_insert' and tgrelid <> 'outbox.events'::regclass"),
              "A");
    Consumer consumer(kafka().bootstrap(), {source.database.topic()});
    expect_settled(db, source, consumer);
}

// Who restores a part of a dump says so.
TEST(Merge, APartOfADumpWaitsForTheRestOrForAPerson)
{
    if (!PgCluster::can_dump())
        GTEST_SKIP() << kCannotDump;
    Source source;
    OwnCluster fresh(kFaultSettings);
    Db(fresh, "postgres").exec("create database restored");
    std::string definitions;
    std::vector<std::string> data;
    split_contents(source.custom, &definitions, &data);
    for (const std::string &line : data)
        if (line.find(" deliveries ") == std::string::npos)
            definitions += line + "\n";
    pg_restore(source.custom, fresh, "restored", definitions);
    Db db(fresh, "restored");
    EXPECT_TRUE(wait_until(std::chrono::seconds(20),
                           [&]
                           {
                               return db.value("select coalesce(last_error, '') "
                                               "from outbox.relay_status") ==
                                      "a restored dump is not complete: outbox.deliveries has 0 "
                                      "restored rows, the dump had 2";
                           }))
        << fresh.log_text();
    EXPECT_EQ(db.value("select outbox.drain('1 ms')"), "f");
    db.exec("select outbox.adopt_position()");
    EXPECT_EQ(db.value("select outbox.drain('20 s')"), "t");
    EXPECT_EQ(status_of(db, source.behind), "PUBLISHED");
}

// Numbers that a damaged or a forged dump brings. No number of a dump takes away those that are to
// come, and the row is named.
TEST(Merge, ImpossibleNumbersOfRestoredEventsAreRefusedByName)
{
    TestDatabase database(cluster());
    kafka().create_topic(database.topic());
    Db db = database.connect();
    const std::string id = "00000000-0000-4000-a000-0000000000b1";
    for (const std::string numbers : {"9223372036854775807, 5", "-7, 5", "3, -9223372036854775808"})
    {
        SCOPED_TRACE(numbers);
        db.exec("insert into outbox.events (seq, xid, id, aggregate_type, aggregate_id, event_type)"
                " values (" +
                numbers + ", '" + id + "', '" + database.type() + "', 'k', 'e')");
        EXPECT_TRUE(wait_until(std::chrono::seconds(20),
                               [&]
                               {
                                   return db.value("select coalesce(last_error, '') from "
                                                   "outbox.relay_status")
                                              .find("restored event " + id) != std::string::npos;
                               }))
            << db.value("select last_error from outbox.relay_status");
        const std::string own = db.value("select outbox.emit($1, 'k', 'e', '{}')", database.type());
        EXPECT_EQ(db.value("select outbox.wait_published($1, '20 s')", own), "t");
        EXPECT_EQ(db.value("select last_value < 1000 from outbox.events_seq"), "t");
        db.exec("delete from outbox.events where id = $1", id);
        EXPECT_TRUE(wait_until(std::chrono::seconds(20),
                               [&]
                               {
                                   return db.value("select coalesce(last_error, '') from "
                                                   "outbox.relay_status")
                                              .find(id) == std::string::npos;
                               }));
    }
    db.exec("insert into outbox.dump_rows values ('dump', 0), ('events_0', 62), ('events_0', 62), "
            "('events_0', 126), ('events_0', 126), ('events_0', 63), ('events_0', 63), "
            "('events_0', -1), ('events_0', -1)");
    EXPECT_TRUE(wait_until(std::chrono::seconds(20),
                           [&]
                           {
                               return db.value("select count(*) from outbox.dump_rows "
                                               "where table_name = 'dump' and bit = 0") == "1";
                           }))
        << db.value("select last_error from outbox.relay_status");
}

// The relay looks again a second later, however long somebody had a table locked.
TEST(Merge, ALockOnATableThatARestoreFillsIsOnlyWaitedFor)
{
    TestDatabase database(cluster());
    kafka().create_topic(database.topic());
    Db db = database.connect();
    const std::string id = "00000000-0000-4000-a000-0000000000b2";
    db.exec("insert into outbox.events (seq, xid, id, aggregate_type, aggregate_id, event_type) "
            "values (3, 5, '" +
            id + "', '" + database.type() + "', 'k', 'e')");
    EXPECT_TRUE(wait_until(std::chrono::seconds(20),
                           [&]
                           {
                               return db.value("select coalesce(last_error, '') "
                                               "from outbox.relay_status")
                                          .find("relay_position is not there") != std::string::npos;
                           }));
    Db locker = database.connect();
    locker.exec("begin; lock table outbox.dump_rows in access exclusive mode");
    // Longer than a lock_timeout, and than the first pauses after an error.
    EXPECT_FALSE(wait_until(Milliseconds(2500), [&] { return status_of(db, id) == "PUBLISHED"; }));
    locker.exec("commit");
    db.exec("insert into outbox.relay_position (system_identifier, database_oid, timeline, "
            "data_directory, written_by, from_snapshot, to_snapshot, last_seq, published_total, "
            "updated_at) values (1, 1, 1, 1, '3', '3:3:', '3:3:', 0, 0, now())");
    EXPECT_TRUE(
        wait_until(std::chrono::seconds(6), [&] { return status_of(db, id) == "PUBLISHED"; }))
        << db.value("select last_error from outbox.relay_status");
}
