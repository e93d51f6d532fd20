// The ring under load: partitions are emptied again and again, and nothing is lost, held up or kept
// from its time.
#include <atomic>
#include <filesystem>
#include <future>
#include <thread>
#include <unordered_set>

#include "ring.h"
#include "servers.h"

using namespace outbox::test;

namespace
{

// A turn of the ring takes a sixth of that.
const Settings kShortRetention = {{"outbox.retention", "1s"},
                                  {"outbox.backoff_initial", "100ms"},
                                  {"outbox.backoff_max", "300ms"}};

constexpr auto kLong = std::chrono::seconds(8);

// Applications that remember themselves what they emitted: outbox.events does not for long.
class Emitters
{
public:
    Emitters(const TestDatabase &database, int clients) : database_(database)
    {
        database_.connect().exec(
            "create table if not exists emitted (n bigserial primary key, id uuid, key text, "
            "payload text, at timestamptz default clock_timestamp())");
        for (int i = 0; i < clients; ++i)
            threads_.emplace_back([this, i] { run(i); });
    }
    ~Emitters() { finish(); }
    Emitters(const Emitters &) = delete;
    Emitters &operator=(const Emitters &) = delete;

    void finish()
    {
        stopping_ = true;
        for (std::thread &thread : threads_)
            thread.join();
        threads_.clear();
    }

    Milliseconds slowest() const { return Milliseconds(slowest_); }

private:
    void run(int client)
    {
        try
        {
            Db db = database_.connect();
            for (int n = 0; !stopping_; ++n)
            {
                const auto start = Clock::now();
                db.exec("with e as (select outbox.emit($1, $2, 'e', to_jsonb($3::int)) as id) "
                        "insert into emitted (id, key, payload) select e.id, $2, $3 from e",
                        database_.type(), "key-" + std::to_string(client), n);
                long now = static_cast<long>(since(start).count());
                long before = slowest_;
                while (now > before && !slowest_.compare_exchange_weak(before, now))
                    ;
            }
        }
        catch (const std::exception &error)
        {
            ADD_FAILURE() << "client " << client << ": " << error.what();
        }
    }

    const TestDatabase &database_;
    std::atomic<bool> stopping_{false};
    std::atomic<long> slowest_{0};
    std::vector<std::thread> threads_;
};

// As check_delivery(), for events that are not in outbox.events any more.
Report
check_emitted(Db &db, const TestDatabase &database, Consumer &consumer)
{
    std::vector<Event> events;
    std::unordered_set<std::string> missing;
    const Result rows = db.exec("select n, id, key, payload from emitted order by n");
    for (int row = 0; row < rows.rows(); ++row)
    {
        events.push_back({std::stoll(rows.text(row, 0)), rows.text(row, 1), database.topic(),
                          rows.text(row, 2), rows.text(row, 3)});
        missing.insert(events.back().id);
    }
    size_t looked_at = 0;
    const auto all_there = [&](const std::vector<Record> &records)
    {
        for (; looked_at < records.size(); ++looked_at)
            missing.erase(records[looked_at].header("id").value_or(""));
        return missing.empty();
    };
    consumer.read_until(kLong, all_there);
    consumer.read_for(Milliseconds(300));
    return compare(events, deliveries(consumer.records()));
}

long
truncations(Db &db, const std::string &table = "%")
{
    return std::stol(db.value("select sum(done_total) from outbox.maintenance_status where task = "
                              "'truncation' and table_name like $1",
                              table));
}

bool
turns_on(Db &db, int more, Milliseconds limit = kLong)
{
    const long before = turns(db);
    return wait_until(limit, [&] { return turns(db) >= before + more; });
}

std::string
table_of(Db &db, const std::string &id)
{
    return db.value("select tableoid::regclass::text from outbox.events where id = $1", id)
        .substr(sizeof("outbox.") - 1);
}

bool
is_held_back_by(Db &db, const std::string &table, const std::string &reason)
{
    return wait_until(kLong,
                      [&]
                      {
                          return db.value("select exists (select from outbox.maintenance_status "
                                          "where table_name = $1 and held_back_by like $2 and "
                                          "held_back_since <= now())",
                                          table, reason) == "t";
                      });
}

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
