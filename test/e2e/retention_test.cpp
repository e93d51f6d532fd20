// The ring under load: partitions are emptied again and again, and nothing is lost, held up or kept
// from its time.
#include "retention_scene.h"

using namespace outbox::test;

namespace
{

constexpr const char *kSizeOfEvents =
    "select sum(pg_total_relation_size(inhrelid)) from pg_inherits "
    "where inhparent = 'outbox.events'::regclass";

} // namespace

TEST(Retention, ManyTurnsOfTheRingUnderLoadLoseNothingAndLeaveNothingBehind)
{
    OwnCluster server(kShortRetention);
    TestDatabase database(server);
    kafka().create_topic(database.topic());
    Consumer consumer(kafka().bootstrap(), {database.topic()});
    Db db = database.connect();
    Emitters emitters(database, 4);

    // More than one turn of the whole ring, then as much for comparison.
    ASSERT_TRUE(turns_on(db, 9));
    const long size = number(db, kSizeOfEvents);
    const auto end = Clock::now() + std::chrono::seconds(1);
    while (Clock::now() < end)
    {
        EXPECT_EQ(db.value("select count(*) from emitted m where m.at > clock_timestamp() - "
                           "interval '900 ms' and not exists (select from outbox.events e "
                           "where e.id = m.id)"),
                  "0");
        EXPECT_LT(number(db, kSizeOfEvents), 3 * size);
    }
    emitters.finish();
    EXPECT_GE(truncations(db), 4);
    EXPECT_EQ(db.value("select coalesce(sum(n_dead_tup), 0) from pg_stat_user_tables where "
                       "schemaname = 'outbox' and relname like 'events%'"),
              "0");
    EXPECT_EQ(db.value("select count(*) from outbox.ring where is_current"), "1");
    std::printf("%ld turns, %ld truncations, slowest statement %ld ms, %ld kB\n", turns(db),
                truncations(db), static_cast<long>(emitters.slowest().count()), size / 1024);
    const Report report = check_emitted(db, database, consumer);
    EXPECT_TRUE(report.exact()) << report.summary();

    // Everything goes in the end but what the current partition may have; ticks go with it.
    EXPECT_TRUE(
        wait_until(kLong, [&] { return db.value("select count(*) from outbox.events") == "0"; }));
    EXPECT_TRUE(
        wait_until(kLong, [&] { return number(db, "select count(*) from outbox.ticks") <= 1; }));

    // A restart wipes the shared memory.
    const std::string current = db.value("select slot from outbox.ring where is_current");
    server.restart();
    EXPECT_EQ(database.connect().value("select outbox.current_slot()"), current);
}

// An event that commits into an empty partition at any moment of the relay's look at it is read.
TEST(Retention, ProcessesThatPauseAnywhereLoseNothing)
{
    OwnCluster server(kShortRetention);
    server.pause_anywhere();
    server.restart();
    TestDatabase database(server);
    kafka().create_topic(database.topic());
    Consumer consumer(kafka().bootstrap(), {database.topic()});
    Db db = database.connect();
    Emitters emitters(database, 4);
    ASSERT_TRUE(turns_on(db, 12, std::chrono::seconds(30)));
    emitters.finish();
    const Report report = check_emitted(db, database, consumer);
    EXPECT_TRUE(report.exact()) << report.summary();
}

TEST(Retention, AStatementWritesToTheNextPartitionOnceTheRingHasTurned)
{
    OwnCluster server(kShortRetention);
    TestDatabase database(server);
    kafka().create_topic(database.topic());
    Consumer consumer(kafka().bootstrap(), {database.topic()});
    Db db = database.connect();
    db.exec("create function turned(since smallint) returns text language plpgsql as $$ begin "
            "for i in 1..400 loop "
            "  if outbox.current_slot() <> since then return ''; end if; "
            "  perform pg_sleep(0.02); "
            "end loop; "
            "raise exception 'the ring does not turn'; end $$");
    // The ring turns for events only.
    db.exec("select outbox.emit($1, 'key', 'made', '0')", database.type());
    db.exec("begin");
    db.exec("create temporary table emitted as select n, outbox.emit($1, 'key' || "
            "case when n % 4 = 0 then turned(outbox.current_slot()) else '' end, 'made', "
            "to_jsonb(n)) as id from generate_series(1, 12) n",
            database.type());
    EXPECT_EQ(db.value("select count(distinct e.tableoid) || ' ' || "
                       "bool_and(e.tableoid = ('outbox.events_' || e.slot)::regclass) "
                       "from outbox.events e join emitted m using (id)"),
              "4 true");
    db.exec("commit");
    consumer.read_until(kLong, [](const auto &records) { return records.size() >= 13; });
    ASSERT_EQ(consumer.records().size(), 13u);
    for (size_t n = 0; n < consumer.records().size(); ++n)
        EXPECT_EQ(consumer.records()[n].value, std::to_string(n));
}

TEST(Retention, WhoWritesToOrReadsAnOldPartitionKeepsItAndNobodyWaits)
{
    OwnCluster server(kShortRetention);
    TestDatabase database(server);
    kafka().create_topic(database.topic());
    Db db = database.connect();
    Db writer = database.connect();
    Db preparer = database.connect();
    Db reader = database.connect();
    // A look at outbox.events would lock all of its partitions.
    struct Emitted
    {
        std::string id;
        std::string table;
    };
    const auto emit = [&](Db &session)
    {
        const Result row =
            session.exec("insert into outbox.events (aggregate_type, aggregate_id, event_type) "
                         "values ($1, 'late', 'e') returning id, 'events_' || slot",
                         database.type());
        return Emitted{row.text(0, 0), row.text(0, 1)};
    };

    // Three partitions in use, each by somebody else.
    writer.exec("begin");
    const Emitted of_writer = emit(writer);
    const std::string first = of_writer.table;
    Emitters emitters(database, 2);
    ASSERT_TRUE(turns_on(db, 1));
    preparer.exec("begin");
    const Emitted of_preparer = emit(preparer);
    const std::string second = of_preparer.table;
    preparer.exec("prepare transaction 'retention'");
    ASSERT_TRUE(turns_on(db, 1));
    const std::string third = emit(db).table;
    reader.exec("begin");
    reader.exec("select count(*) from outbox." + third);

    EXPECT_TRUE(
        is_held_back_by(db, first, "a lock of process " + std::to_string(writer.backend_pid())));
    EXPECT_TRUE(is_held_back_by(db, second, "a lock, as of a prepared transaction"));
    EXPECT_TRUE(
        is_held_back_by(db, third, "a lock of process " + std::to_string(reader.backend_pid())));
    // The others continue.
    EXPECT_TRUE(turns_on(db, 3));
    EXPECT_EQ(truncations(db, first) + truncations(db, second) + truncations(db, third), 0);

    writer.exec("commit");
    db.exec("commit prepared 'retention'");
    reader.exec("commit");
    EXPECT_EQ(db.value("select outbox.wait_published($1, '20 s')", of_writer.id), "t");
    EXPECT_EQ(db.value("select outbox.wait_published($1, '20 s')", of_preparer.id), "t");
    // What was written late has its time from then on.
    const auto published = Clock::now();
    EXPECT_TRUE(wait_until(kLong,
                           [&]
                           {
                               // Of a restored dump: says that all was published long ago.
                               db.exec("insert into outbox.ticks (next_xid, snapshot, "
                                       "published_at, written_by) values (99999999, "
                                       "'99999999:99999999:', clock_timestamp() - interval "
                                       "'1 s', '3')");
                               return truncations(db, first) > 0 && truncations(db, second) > 0 &&
                                      truncations(db, third) > 0;
                           }));
    EXPECT_GE(since(published), Milliseconds(800));

    // Whoever takes an old partition for the current one, even one that was emptied, loses nothing.
    const std::string into_old =
        db.value("insert into outbox.events (slot, aggregate_type, aggregate_id, event_type) "
                 "select (slot + 1) % 8, $1, 'stale', 'e' from outbox.ring where is_current "
                 "returning id",
                 database.type());
    EXPECT_EQ(db.value("select outbox.wait_published($1, '20 s')", into_old), "t");
    emitters.finish();
    EXPECT_LT(emitters.slowest(), Milliseconds(1000));
}

TEST(Retention, AnOutageLongerThanTheRetentionLosesNothingAndIsToldOnce)
{
    OwnCluster server(kShortRetention);
    TestDatabase database(server);
    kafka().create_topic(database.topic());
    Consumer consumer(kafka().bootstrap(), {database.topic()});
    Db db = database.connect();
    {
        Emitters before(database, 1);
        ASSERT_TRUE(turns_on(db, 1));
    }
    kafka().stop();
    Emitters emitters(database, 2);
    // Until all partitions are in use, and a while longer.
    EXPECT_TRUE(is_held_back_by(db, "events", "no partition is empty"));
    EXPECT_TRUE(wait_until(kLong,
                           [&]
                           {
                               return db.value("select count(distinct tableoid) = 8 from "
                                               "outbox.events") == "t";
                           }));
    const long full = turns(db);
    EXPECT_TRUE(wait_until(kLong,
                           [&]
                           {
                               return db.value("select exists (select from "
                                               "outbox.maintenance_status where held_back_by = "
                                               "'events that are not published')") == "t";
                           }));
    EXPECT_EQ(turns(db), full);
    emitters.finish();
    kafka().start();
    const Report report = check_emitted(db, database, consumer);
    EXPECT_TRUE(exact_after_outage(report));
    const std::string log = server.log_text();
    const std::string warning = "all partitions of outbox.events are in use";
    const size_t told = log.find(warning);
    ASSERT_NE(told, std::string::npos);
    EXPECT_EQ(log.find(warning, told + 1), std::string::npos);
    EXPECT_TRUE(wait_until(kLong, [&] { return truncations(db) >= 7; }));
}
