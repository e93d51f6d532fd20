// What holds up what: lanes cannot be constructed, and rows of outbox.deliveries that were written
// by 0.2, or in another database, wait as before.
#include "faults.h"
#include "support/lanes_of_0_2.h"

using namespace outbox::test;

namespace
{

using Ids = std::vector<std::string>;

// As it is stored.
std::string
bigint(std::uint64_t lane)
{
    return std::to_string(static_cast<std::int64_t>(lane));
}

// The events of a key, or of all, have come to the topic in this order.
void
expect_order(const std::string &topic, const std::string &key, const Ids &expected)
{
    Consumer consumer(kafka().bootstrap(), {topic});
    consumer.read_count(expected.size(), std::chrono::seconds(20));
    consumer.read_for(Milliseconds(300));
    Ids ids;
    for (const Record &record : consumer.records())
        if (key.empty() || record.key == key)
            ids.push_back(record.header("id").value_or(""));
    EXPECT_EQ(ids, expected) << topic;
}

// Emits an event that cannot be sent, and waits until it has failed.
std::string
emit_failed(Db &db, const std::string &type, const std::string &key)
{
    db.exec("select outbox.pause('until the event is spoilt')");
    const std::string id = db.value("select outbox.emit($1, $2, 'e', '{}')", type, key);
    db.exec("update outbox.events set headers = '7' where id = $1", id);
    db.exec("select outbox.resume()");
    EXPECT_TRUE(wait_until(
        std::chrono::seconds(20),
        [&] {
            return db.value("select status from outbox.event_status where id = $1", id) == "FAILED";
        }))
        << db.value("select r::text from outbox.relay_status r");
    return id;
}

// A database of 0.2 in which an event has failed, with one behind it, and another topic is refused:
// one of its events is to be tried again in an hour, and one of another key waits. The library of
// today does not relay it.
struct Aside
{
    explicit Aside(OwnCluster &server)
        : database(server, TestDatabase::Extension::kNotInstalled), type(database.type()),
          other(type + "_other")
    {
        kafka().create_topic(kTopicPrefix + type, 1);
        kafka().create_topic(kTopicPrefix + other, 1);
        Db db = database.connect();
        db.exec("create extension outbox version '0.2'");
        const std::string key_lane = bigint(lane_of_0_2(kTopicPrefix + type + '\0' + "k"));
        const std::string topic_lane = bigint(lane_of_0_2(kTopicPrefix + other));
        failed = set_aside(db, type, "k", key_lane, "FAILED");
        behind = set_aside(db, type, "k", key_lane, "WAITING");
        retrying = set_aside(db, other, "k", topic_lane, "RETRYING");
        waiting = set_aside(db, other, "another", topic_lane, "WAITING");
    }

    static std::string set_aside(Db &db, const std::string &type, const std::string &key,
                                 const std::string &lane, const std::string &state)
    {
        const std::string id = db.value("select outbox.emit($1, $2, 'e', '{}')", type, key);
        db.exec("insert into outbox.deliveries (seq, xid, slot, event_id, lane, topic, "
                "partition_key, state, blocking, attempts, next_attempt_at, failed_at, last_error) "
                "select e.seq, e.xid, e.slot, e.id, $2::bigint, $3, e.aggregate_id, $4, "
                "$4 <> 'WAITING', 1, case when $4 = 'RETRYING' then now() + interval '1 hour' end, "
                "now(), 'REFUSED: by the test' from outbox.events e where e.id = $1",
                id, lane, kTopicPrefix + type, state);
        return id;
    }

    // In the database in which they are set aside now: what is new waits behind them, and follows
    // them.
    void expect_lines(Db &db) const
    {
        const std::string free = db.value("select outbox.emit($1, 'free', 'e', '{}')", type);
        const std::string last = db.value("select outbox.emit($1, 'k', 'e', '{}')", type);
        const std::string third = db.value("select outbox.emit($1, 'third', 'e', '{}')", other);
        EXPECT_EQ(db.value("select outbox.wait_published($1, '30 s')", free), "t")
            << db.value("select last_error from outbox.relay_status");
        const auto lines = [&]
        {
            return db.value(
                "select string_agg(line, '; ') from (select string_agg(state, ' ' order "
                "by seq) as line from outbox.deliveries group by lane order by min(seq)) "
                "lines");
        };
        EXPECT_TRUE(
            wait_until(std::chrono::seconds(20), [&]
                       { return lines() == "FAILED WAITING WAITING; RETRYING WAITING WAITING"; }))
            << lines();
        db.exec("select outbox.retry($1), outbox.retry($2)", failed, retrying);
        EXPECT_EQ(db.value("select outbox.drain('30 s')"), "t");
        expect_order(kTopicPrefix + type, "k", {failed, behind, last});
        expect_order(kTopicPrefix + other, "", {retrying, waiting, third});
    }

    TestDatabase database;
    std::string type;
    std::string other;
    std::string failed;
    std::string behind;
    std::string retrying;
    std::string waiting;
};

Settings
with_long_pauses()
{
    Settings settings = kFaultSettings;
    settings["outbox.backoff_max"] = "1h";
    return settings;
}

std::string
dump(const PgCluster &server, const std::string &database)
{
    const std::string file = run_dir() / unique_name("dump.");
    run_or_throw(Command({PgCluster::dump_program("pg_dump"), "--format=custom", "--file=" + file,
                          "--dbname=" + server.conninfo(database)}));
    return file;
}

Db
restore(const PgCluster &server, const std::string &dump)
{
    Db(server, "postgres").exec("create database restored");
    run_or_throw(
        Command({PgCluster::dump_program("pg_restore"), "--exit-on-error", "--single-transaction",
                 "--dbname=" + server.conninfo("restored"), dump}));
    return Db(server, "restored");
}

} // namespace

// By the hash of 0.2 the key's lane is that of the other topic.
TEST(Lanes, AKeyConstructedForAnotherTopicsLaneHoldsUpNothingThere)
{
    constexpr const char *kKey = "dqkadanj)eriw0y)=Dfs>";
    ASSERT_EQ(lane_of_0_2(std::string("outbox.event.lane_maker") + '\0' + kKey),
              lane_of_0_2("outbox.event.lane_victim"));
    OwnCluster server(Settings{{"outbox.max_attempts", "1"}});
    TestDatabase database(server);
    kafka().create_topic("outbox.event.lane_maker", 1);
    kafka().create_topic("outbox.event.lane_victim", 1);
    Db db = database.connect();
    EXPECT_EQ(db.value("select count(*) from pg_class c, aclexplode(coalesce(c.relacl, "
                       "acldefault('r', c.relowner))) a "
                       "where c.oid = 'outbox.lane_key'::regclass and a.grantee <> c.relowner"),
              "0")
        << "others than its owner may read the secret";
    (void) emit_failed(db, "lane_maker", kKey);
    const std::string other = db.value("select outbox.emit('lane_victim', 'k', 'e', '{}')");
    EXPECT_EQ(db.value("select outbox.wait_published($1, '20 s')", other), "t");
}

TEST(Lanes, WhatWasSetAsideBy0Point2WaitsAsBeforeAfterTheUpdate)
{
    OwnCluster server(with_long_pauses());
    const Aside aside(server);
    Db db = aside.database.connect();
    db.exec("alter extension outbox update");
    aside.expect_lines(db);
}

TEST(Lanes, WhatWasSetAsideInADumpOf0Point2WaitsAsBefore)
{
    if (!PgCluster::can_dump())
        GTEST_SKIP() << kCannotDump;
    OwnCluster server(with_long_pauses());
    const Aside aside(server);
    // As the relay of 0.2 would have written it, or the dump would wait for it.
    aside.database.connect().exec(
        "insert into outbox.relay_position select outbox.system_identifier(), d.oid, 1, 1, "
        "pg_current_xact_id(), pg_current_snapshot(), pg_current_snapshot(), 0, 0, now() "
        "from pg_database d where d.datname = current_database()");
    OwnCluster fresh(with_long_pauses());
    Db db = restore(fresh, dump(server, aside.database.name()));
    aside.expect_lines(db);
}

// Its lanes are by another secret.
TEST(Lanes, WhatWasSetAsideInAnotherDatabaseWaitsAsBeforeInThisOne)
{
    if (!PgCluster::can_dump())
        GTEST_SKIP() << kCannotDump;
    Settings settings = kFaultSettings;
    settings["outbox.max_attempts"] = "1";
    OwnCluster server(settings);
    TestDatabase database(server);
    kafka().create_topic(database.topic(), 1);
    Db there = database.connect();
    const std::string head = emit_failed(there, database.type(), "k");
    Ids line = there.column("select outbox.emit($1, 'k', 'e', '{}') from generate_series(1, 2)",
                            database.type());
    const auto rows = [](Db &db)
    {
        return db.value("select format('%s in %s to %s', count(*), min(lane), max(lane)) "
                        "from outbox.deliveries");
    };
    ASSERT_TRUE(wait_until(std::chrono::seconds(20), [&] { return rows(there)[0] == '3'; }));
    const std::string lane = there.value("select min(lane) from outbox.deliveries");
    OwnCluster fresh(settings);
    Db here = restore(fresh, dump(server, database.name()));
    line.push_back(here.value("select outbox.emit($1, 'k', 'e', '{}')", database.type()));
    EXPECT_TRUE(wait_until(std::chrono::seconds(20), [&] { return rows(here)[0] == '4'; }))
        << rows(here);
    EXPECT_EQ(here.value("select count(distinct lane) from outbox.deliveries"), "1") << rows(here);
    EXPECT_NE(here.value("select min(lane) from outbox.deliveries"), lane);
    here.exec("select outbox.discard($1, 'test')", head);
    expect_order(database.topic(), "k", line);
}
