// What is kept longer than its partition: failed events, and restored ones for their time.
#include <future>

#include "retention_scene.h"

using namespace outbox::test;

TEST(Retention, AFailedEventOutlivesItsPartitionAndCanStillBeRetried)
{
    OwnCluster server(kShortRetention);
    TestDatabase database(server);
    kafka().create_topic(database.topic());
    Consumer consumer(kafka().bootstrap(), {database.topic()});
    Db db = database.connect();
    // Large enough to be stored outside of the row.
    const std::string id = db.value(
        "select outbox.emit($1, 'failed', 'e', to_jsonb((select string_agg(md5(i::text), '') "
        "from generate_series(1, 1000) i)))",
        database.type());
    ASSERT_EQ(db.value("select outbox.wait_published($1, '20 s')", id), "t");
    db.exec("insert into outbox.deliveries (seq, xid, slot, event_id, lane, topic, partition_key, "
            "state, blocking, attempts, last_error) select seq, xid, slot, id, 7, $2, 'failed', "
            "'WAITING', false, 0, null from outbox.events where id = $1",
            id, database.topic());
    const std::string table = table_of(db, id);
    {
        Emitters emitters(database, 1);
        EXPECT_TRUE(is_held_back_by(db, table, "1 refused or waiting events"));
        EXPECT_EQ(truncations(db, table), 0);
        db.exec("update outbox.deliveries set state = 'FAILED', last_error = 'by hand' "
                "where event_id = $1",
                id);
        EXPECT_TRUE(wait_until(kLong, [&] { return truncations(db, table) > 0; }));
    }
    EXPECT_EQ(db.value("select count(*) from outbox.events where id = $1", id), "1");
    EXPECT_EQ(
        db.value("select length(payload::text) from outbox.dead_letters where event_id = $1", id),
        "32002");
    EXPECT_EQ(db.value("select status from outbox.event_status where id = $1", id), "FAILED");
    EXPECT_EQ(db.value("select outbox.retry($1)", id), "t");
    const auto copies = [&](const std::vector<Record> &records)
    {
        size_t count = 0;
        for (const Record &record : records)
            count += record.header("id").value_or("") == id ? 1 : 0;
        return count == 2; // by hand it was published before
    };
    EXPECT_TRUE(consumer.read_until(kLong, copies));
    EXPECT_TRUE(wait_until(kLong, [&]
                           { return db.value("select count(*) from outbox.deliveries") == "0"; }));
}

// A dump of events that were published brings them as old as their restoring, into partitions that
// have had their turn.
TEST(Retention, RestoredEventsAreKeptForTheRetentionAndThenGo)
{
    if (!PgCluster::can_dump())
        GTEST_SKIP() << kCannotDump;
    OwnCluster server(kShortRetention);
    TestDatabase database(server);
    kafka().create_topic(database.topic());
    Consumer consumer(kafka().bootstrap(), {database.topic()});
    Db db = database.connect();
    // Who reads the partitions keeps them: until the dump begins they could all be emptied.
    Db reader = database.connect();
    {
        Emitters emitters(database, 1);
        ASSERT_TRUE(turns_on(db, 3));
        reader.exec("begin");
        ASSERT_TRUE(wait_until(
            kLong, [&] { return reader.value("select count(*) from outbox.events") != "0"; }));
    }
    ASSERT_EQ(db.value("select outbox.wait_published(id, '20 s') from emitted order by n desc "
                       "limit 1"),
              "t");
    const std::string file = run_dir() / unique_name("dump.");
    run_or_throw(Command({PgCluster::dump_program("pg_dump"), "--file=" + file,
                          "--dbname=" + server.conninfo(database.name())}));
    reader.exec("commit");

    Settings settings = kShortRetention;
    settings["outbox.retention"] = "2s";
    OwnCluster fresh(settings);
    Db(fresh, "postgres").exec("create database restored");
    {
        // So that the position of this database is old as well.
        Db there(fresh, "restored");
        there.exec("create extension outbox");
        EXPECT_TRUE(wait_until(kLong,
                               [&]
                               {
                                   return there.value("select exists (select from "
                                                      "outbox.current_position where updated_at < "
                                                      "now() - interval '2200 ms')") == "t";
                               }));
    }
    // Looks from before the restore on: two seconds after it the events may be gone.
    Db there(fresh, "restored");
    auto restore = std::async(
        std::launch::async,
        [&]
        {
            run_or_throw(Command({PgCluster::dump_program("psql"), "--no-psqlrc", "--quiet",
                                  "--set=ON_ERROR_STOP=1", "--single-transaction", "--file=" + file,
                                  "--dbname=" + fresh.conninfo("restored")}));
        });
    std::string restored_at;
    std::string count;
    EXPECT_TRUE(wait_until(std::chrono::seconds(30),
                           [&]
                           {
                               const Result row = there.exec(
                                   "select coalesce(max(restored_at)::text, ''), (select count(*) "
                                   "from outbox.events) from outbox.ring");
                               restored_at = row.text(0, 0);
                               count = row.text(0, 1);
                               return !restored_at.empty();
                           }));
    restore.get();
    EXPECT_NE(count, "0");
    for (bool kept = true; kept;)
    {
        const std::string now = there.value("select count(*) from outbox.events");
        kept = there.value("select clock_timestamp() < $1::timestamptz + interval '2 s'",
                           restored_at) == "t";
        EXPECT_TRUE(now == count || !kept) << now << " of " << count;
    }
    const Report report = check_emitted(there, database, consumer);
    EXPECT_TRUE(report.complete_and_ordered()) << report.summary();
    EXPECT_TRUE(wait_until(kLong, [&]
                           { return there.value("select count(*) from outbox.events") == "0"; }));
}
