// Replays: what was published goes out once more, behind everything new, and disturbs nothing.
#include <algorithm>
#include <map>
#include <set>

#include "real_kafka_test.h"
#include "servers.h"

using namespace outbox::test;

namespace
{

using Records = std::vector<Record>;

constexpr auto kLong = std::chrono::seconds(30);

// Events of one database in Kafka, and what of them came by a replay.
class Scene
{
public:
    explicit Scene(PgCluster &server) : database_(server)
    {
        kafka().create_topic(database_.topic());
        consumer_ = std::make_unique<Consumer>(kafka().bootstrap(),
                                               std::vector<std::string>{database_.topic()});
    }

    const TestDatabase &database() const { return database_; }
    Db &db() { return db_; }
    Consumer &consumer() { return *consumer_; }
    void connect_again() { db_ = database_.connect(); }
    void leave() { db_ = Db(cluster(), "postgres"); }

    // Events of some keys, in their order, once they are published.
    std::vector<std::string> emit(int count, int keys = 3)
    {
        const auto ids = emit_only(count, keys);
        EXPECT_EQ(db_.value("select outbox.drain('30 s')"), "t");
        return ids;
    }
    std::vector<std::string> emit_only(int count, int keys = 3)
    {
        return db_.column("select outbox.emit($1, 'k' || n % $3::int, 'e', jsonb_build_object('n', "
                          "n, 'x', 1.50)) from generate_series(1, $2::int) n",
                          database_.type(), count, keys);
    }

    // Arguments as in "max_count => 5, rate_per_second => 10".
    std::string replay(const std::string &arguments)
    {
        return db_.value("select outbox.replay($1, " + arguments + ", dry_run => false)",
                         database_.type());
    }

    std::string column(const std::string &replay, const std::string &name)
    {
        return db_.exec("select " + name + " from outbox.replays where replay_id = $1", replay)
            .field(0)
            .value_or("");
    }
    int number(const std::string &replay, const std::string &name)
    {
        return std::stoi(column(replay, name));
    }
    bool reaches(const std::string &replay, const std::string &state, Milliseconds limit = kLong)
    {
        return wait_until(limit, [&] { return column(replay, "state") == state; });
    }
    bool publishes(const std::string &replay, int count)
    {
        return wait_until(kLong, [&] { return number(replay, "published") >= count; });
    }

    // Reads until there are so many records of the replay, and a little longer.
    Records replayed(const std::string &replay, size_t count)
    {
        const auto of_replay = [&](const Record &record)
        { return record.header("replay_id") == replay; };
        consumer_->read_until(kLong,
                              [&](const Records &records) {
                                  return std::count_if(records.begin(), records.end(), of_replay) >=
                                         static_cast<long>(count);
                              });
        consumer_->read_for(Milliseconds(200));
        Records found;
        for (const Record &record : consumer_->records())
            if (of_replay(record))
                found.push_back(record);
        return found;
    }

    std::string describe(const std::string &replay)
    {
        return db_.value("select r::text || coalesce(s.last_error, '') from outbox.replays r, "
                         "outbox.relay_status s where replay_id = $1",
                         replay);
    }

private:
    TestDatabase database_;
    Db db_ = database_.connect();
    std::unique_ptr<Consumer> consumer_;
};

std::vector<std::string>
ids_of(const Records &records)
{
    std::vector<std::string> ids;
    for (const Record &record : records)
        ids.push_back(record.header("id").value_or(""));
    return ids;
}

std::set<std::string>
set_of(const std::vector<std::string> &ids)
{
    return {ids.begin(), ids.end()};
}

// Whether the records of each key, the first of each event, are in the order of emission.
bool
in_order_of_keys(const Records &records, const std::vector<std::string> &emitted)
{
    std::map<std::string, size_t> number;
    for (const std::string &id : emitted)
        number.emplace(id, number.size());
    std::map<std::string, size_t> last;
    std::set<std::string> seen;
    for (const Record &record : records)
    {
        const std::string id = record.header("id").value_or("");
        if (!seen.insert(id).second)
            continue;
        size_t &before = last[record.key.value_or("")];
        if (number.at(id) + 1 <= before)
            return false;
        before = number.at(id) + 1;
    }
    return true;
}

} // namespace

TEST(Replay, TheSameEventsGoOutAgainInOrderOfTheirKeysWithTheSameBytesAndOneHeaderMore)
{
    Scene scene(cluster());
    scene.db().exec("select outbox.emit($1, 'k1', 'e', '{\"b\": [1e3, \"\\u00e9\"], \"a\": null}', "
                    "'{\"traceparent\": \"00-1\", \"n\": 7}', schema_version => 3)",
                    scene.database().type());
    scene.db().exec("select outbox.emit_bytes($1, 'k1', 'e', '\\x00ff')", scene.database().type());
    scene.db().exec("insert into outbox.events (aggregate_type, aggregate_id, event_type) values "
                    "($1, 'k2', 'e')",
                    scene.database().type());
    scene.emit(600);
    const auto emitted = scene.db().column("select id from outbox.events order by seq");
    const std::string total = scene.db().value("select published_total from outbox.relay_status");
    ASSERT_TRUE(scene.consumer().read_count(emitted.size(), kLong));
    std::map<std::string, Record> first;
    for (const Record &record : scene.consumer().records())
        first[record.header("id").value()] = record;

    const std::string replay = scene.replay("rate_per_second => 10000");
    ASSERT_TRUE(scene.reaches(replay, "DONE")) << scene.describe(replay);
    const Records again = scene.replayed(replay, emitted.size());
    ASSERT_EQ(again.size(), emitted.size());
    EXPECT_EQ(set_of(ids_of(again)), set_of(emitted));
    EXPECT_TRUE(in_order_of_keys(again, emitted));
    for (const Record &record : again)
    {
        const Record &before = first.at(record.header("id").value());
        EXPECT_EQ(record.key, before.key);
        EXPECT_EQ(record.value, before.value);
        EXPECT_EQ(record.partition, before.partition);
        auto headers = before.headers;
        headers.insert(headers.begin(), {"replay_id", replay});
        EXPECT_EQ(record.headers, headers);
    }
    EXPECT_EQ(scene.number(replay, "published"), static_cast<int>(emitted.size()));
    EXPECT_EQ(scene.column(replay, "percent"), "100.0");
    EXPECT_EQ(scene.db().value("select count(*) from outbox.replay_events"), "0");
    EXPECT_EQ(scene.db().value("select published_total from outbox.relay_status"), total);
    EXPECT_EQ(scene.consumer().records().size(), 2 * emitted.size());
}

TEST(Replay, GoesNoFasterThanItsRateNoFurtherThanItsCapAndOnlyWhereItIsTold)
{
    Scene scene(cluster());
    const auto emitted = scene.emit(100);
    const std::string topic = scene.database().topic() + ".again";
    kafka().create_topic(topic);
    const auto start = Clock::now();
    const std::string replay =
        scene.replay("max_count => 60, rate_per_second => 40, topic => '" + topic + "'");
    ASSERT_TRUE(scene.reaches(replay, "DONE")) << scene.describe(replay);
    // Four may go at once.
    EXPECT_GE(since(start).count(), 1000 * (60 - 4) / 40);
    EXPECT_EQ(scene.column(replay, "matching"), "");
    Consumer elsewhere(kafka().bootstrap(), {topic});
    ASSERT_TRUE(elsewhere.read_count(60, kLong));
    elsewhere.read_for(Milliseconds(200));
    EXPECT_EQ(set_of(ids_of(elsewhere.records())),
              std::set<std::string>(emitted.begin(), emitted.begin() + 60));
    ASSERT_TRUE(scene.consumer().read_count(100, kLong));
    EXPECT_EQ(scene.replayed(replay, 0).size(), 0U);
}

TEST(Replay, KillsInTheMiddleRepeatOnlyWhatWasNotWrittenDown)
{
    constexpr int kEvents = 1600;
    constexpr int kBeforeFirst = 1000;
    constexpr int kBeforeSecond = 1300;
    OwnCluster server(Settings{{"fsync", "off"}});
    server.expect_kill();
    Scene scene(server);
    const auto emitted = scene.emit(kEvents);
    const std::string replay = scene.replay("max_count => 100000, rate_per_second => 500");
    ASSERT_TRUE(scene.publishes(replay, kBeforeFirst));
    scene.database().kill_relay();
    scene.connect_again();
    ASSERT_TRUE(scene.publishes(replay, kBeforeSecond)) << scene.describe(replay);
    server.kill9();
    server.start();
    scene.connect_again();
    ASSERT_TRUE(scene.reaches(replay, "DONE")) << scene.describe(replay);
    EXPECT_EQ(scene.number(replay, "published"), kEvents);
    const Records again = scene.replayed(replay, kEvents);
    EXPECT_EQ(set_of(ids_of(again)), set_of(emitted));
    EXPECT_TRUE(in_order_of_keys(again, emitted));
    // What is acknowledged is written down every 0.2 s, and on disk some tenths later.
    std::printf("%zu events went out twice\n", again.size() - emitted.size());
    EXPECT_LT(again.size() - emitted.size(), static_cast<size_t>(kBeforeFirst));
}

TEST(Replay, NewEventsGoBeforeThoseOfAReplayThatWasAskedForEarlier)
{
    constexpr int kOld = 200;
    constexpr int kNew = 20000;
    Scene scene(cluster());
    scene.emit(kOld);
    scene.db().exec("select outbox.pause()");
    ASSERT_TRUE(scene.database().reaches_state("paused"));
    const std::string replay = scene.replay("rate_per_second => 10000");
    scene.emit_only(kNew);
    EXPECT_EQ(scene.column(replay, "state"), "QUEUED");
    scene.db().exec("select outbox.resume()");
    ASSERT_TRUE(scene.reaches(replay, "DONE")) << scene.describe(replay);
    ASSERT_TRUE(scene.consumer().read_count(2 * kOld + kNew, kLong));
    // It begins when so few of the new ones are not acknowledged yet.
    constexpr long kMayFollow = 1000;
    std::set<int> begun;
    long followed = 0;
    for (const Record &record : scene.consumer().records())
        if (record.header("replay_id"))
            begun.insert(record.partition);
        else
            followed += static_cast<long>(begun.count(record.partition));
    EXPECT_LE(followed, kMayFollow);
    std::printf("%ld of %d new events followed an old one\n", followed, kNew);
}

TEST(Replay, NewEventsAreNotHeldUpByAReplayThatRuns)
{
    Scene scene(cluster());
    scene.emit(2000);
    const std::string replay = scene.replay("max_count => 2000, rate_per_second => 1500");
    ASSERT_TRUE(scene.reaches(replay, "RUNNING"));
    std::vector<long> took;
    while (scene.column(replay, "state") == "RUNNING")
    {
        const auto start = Clock::now();
        const std::string id =
            scene.db().value("select outbox.emit($1, 'k1', 'e', '{}')", scene.database().type());
        ASSERT_EQ(scene.db().value("select outbox.wait_published($1, '20 s')", id), "t");
        took.push_back(since(start).count());
    }
    EXPECT_EQ(scene.column(replay, "state"), "DONE");
    ASSERT_GE(took.size(), 5U);
    std::sort(took.begin(), took.end());
    std::printf("%zu events during the replay: median %ld ms, longest %ld ms\n", took.size(),
                took[took.size() / 2], took.back());
    EXPECT_LT(took[took.size() / 2], 300);
}

TEST(Replay, ACancelledOneEndsAndTheNextBegins)
{
    Scene scene(cluster());
    const auto emitted = scene.emit(1000);
    const std::string replay = scene.replay("rate_per_second => 100");
    const std::string next = scene.replay("max_count => 7");
    ASSERT_TRUE(scene.publishes(replay, 10)) << scene.describe(replay);
    EXPECT_EQ(scene.column(next, "state"), "QUEUED");

    // Not before it is committed.
    Db person = scene.database().connect();
    person.exec("begin");
    EXPECT_EQ(person.value("select outbox.cancel_replay($1)", replay), "t");
    EXPECT_EQ(scene.column(replay, "state"), "RUNNING");
    const std::string id =
        scene.db().value("select outbox.emit($1, 'k1', 'e', '{}')", scene.database().type());
    EXPECT_EQ(scene.db().value("select outbox.wait_published($1, '20 s')", id), "t");
    person.exec("commit");

    ASSERT_TRUE(scene.reaches(next, "DONE")) << scene.describe(next);
    EXPECT_EQ(scene.column(replay, "state"), "CANCELLED");
    EXPECT_LT(scene.replayed(replay, 10).size(), 700U);
    EXPECT_EQ(ids_of(scene.replayed(next, 7)).size(), 7U);
    EXPECT_EQ(scene.db().value("select count(*) from outbox.replay_events"), "0");

    // A transaction that is rolled back has asked for nothing.
    person.exec("begin");
    person.exec("select outbox.replay($1, dry_run => false)", scene.database().type());
    person.exec("rollback");
    EXPECT_EQ(scene.db().value("select count(*) from outbox.replays where state = 'QUEUED'"), "0");
}

TEST(Replay, APauseHoldsItAndAnOutageOfKafkaOnlyDelaysIt)
{
    Scene scene(cluster());
    const auto emitted = scene.emit(400);
    ASSERT_TRUE(scene.consumer().read_count(400, kLong));
    const std::string replay = scene.replay("rate_per_second => 200");
    ASSERT_TRUE(scene.publishes(replay, 20));
    scene.db().exec("select outbox.pause()");
    ASSERT_TRUE(scene.database().reaches_state("paused"));
    scene.consumer().read_for(Milliseconds(300)); // what was on its way
    const size_t before = scene.consumer().records().size();
    scene.consumer().read_for(Milliseconds(300));
    EXPECT_EQ(scene.consumer().records().size(), before);
    EXPECT_EQ(scene.column(replay, "state"), "RUNNING");
    // Apache Kafka takes ten seconds to come back; the relay's part is the same.
    const bool outage = kafka().kind() == "embedded";
    if (outage)
        kafka().stop();
    scene.db().exec("select outbox.resume()");
    if (outage)
    {
        EXPECT_TRUE(wait_until(kLong, [&] { return scene.column(replay, "last_error") != ""; }))
            << scene.describe(replay);
        kafka().start();
    }
    ASSERT_TRUE(scene.reaches(replay, "DONE", std::chrono::seconds(60))) << scene.describe(replay);
    const Records again = scene.replayed(replay, 400);
    EXPECT_EQ(set_of(ids_of(again)), set_of(emitted));
    EXPECT_TRUE(in_order_of_keys(again, emitted));
    EXPECT_EQ(scene.number(replay, "refused"), 0);
}

TEST(Replay, KeepsItsEventsFromBeingRemovedAndSaysSo)
{
    OwnCluster server({{"outbox.retention", "1s"}, {"fsync", "off"}});
    Scene scene(server);
    const auto emitted = scene.emit(20);
    const std::string replay = scene.replay("rate_per_second => 1");
    const auto held_back = [&]
    {
        return scene.db().value("select count(*) from outbox.maintenance_status where task = "
                                "'truncation' and held_back_by = 'events of replay ' || $1",
                                replay);
    };
    ASSERT_TRUE(wait_until(kLong,
                           [&]
                           {
                               scene.emit_only(1); // an empty partition is not left
                               return held_back() == "1";
                           }));
    const auto kept = [&]
    {
        return scene.db().value("select count(*) from outbox.events where id = any ($1::uuid[])",
                                "{" + emitted.front() + "," + emitted.back() + "}");
    };
    EXPECT_EQ(kept(), "2");
    EXPECT_EQ(scene.column(replay, "state"), "RUNNING");
    EXPECT_EQ(scene.number(replay, "missing"), 0);
    scene.db().exec("select outbox.cancel_replay($1)", replay);
    EXPECT_TRUE(wait_until(kLong, [&] { return kept() == "0"; }));

    // What somebody takes away by hand is counted.
    scene.emit(3);
    scene.db().exec("select outbox.pause()");
    const std::string emptied = scene.replay("max_count => 1000");
    const int total = scene.number(emptied, "total");
    scene.db().exec("truncate outbox.events");
    scene.db().exec("select outbox.resume()");
    ASSERT_TRUE(scene.reaches(emptied, "DONE")) << scene.describe(emptied);
    EXPECT_EQ(scene.number(emptied, "missing"), total);
    EXPECT_GE(total, 3);
}

TEST(Replay, ACopyOfTheDatabaseDoesNotContinueIt)
{
    Scene scene(cluster());
    scene.emit(10);
    scene.db().exec("select outbox.pause()");
    const std::string replay = scene.replay("max_count => 10");
    const std::string copy = unique_name("copy_");
    scene.leave(); // as a template it may have no sessions
    Db(cluster(), "postgres")
        .exec("create database " + copy + " template " + scene.database().name());
    Db other(cluster(), copy);
    other.exec("select outbox.resume()");
    EXPECT_TRUE(wait_until(kLong,
                           [&]
                           {
                               return other.value("select state from outbox.replays where "
                                                  "replay_id = $1 and last_error like "
                                                  "'%copy of%' or state <> 'FAILED'",
                                                  replay) == "FAILED";
                           }));
    EXPECT_EQ(other.value("select count(*) from outbox.replay_events"), "0");
    scene.connect_again();
    scene.db().exec("select outbox.resume()");
    ASSERT_TRUE(scene.reaches(replay, "DONE")) << scene.describe(replay);
    EXPECT_EQ(scene.replayed(replay, 10).size(), 10U);
    other = Db(cluster(), "postgres");
    other.exec("drop database " + copy);
}

// The limit of a topic is looked at by Kafka alone.
REAL_KAFKA_TEST(Replay, EventsThatKafkaRefusesAreCountedAndNewOnesDoNotNotice)
{
    Scene scene(cluster());
    const std::string topic = scene.database().topic() + ".small";
    kafka().create_topic(topic, 1, {{"max.message.bytes", "2000"}});
    // Five of thirty are too large for the other topic.
    scene.db().exec("select outbox.emit($1, 'k' || n % 3, 'e', case when n % 6 = 2 then "
                    "to_jsonb(repeat('x', 5000)) else to_jsonb(n) end) "
                    "from generate_series(1, 30) n",
                    scene.database().type());
    const auto emitted = scene.db().column("select id from outbox.events order by seq");
    EXPECT_EQ(scene.db().value("select outbox.drain('30 s')"), "t");
    const std::string replay = scene.replay("rate_per_second => 100, topic => '" + topic + "'");
    while (scene.column(replay, "ended_at").empty())
    {
        const auto start = Clock::now();
        const std::string id =
            scene.db().value("select outbox.emit($1, 'k2', 'e', '{}')", scene.database().type());
        ASSERT_EQ(scene.db().value("select outbox.wait_published($1, '20 s')", id), "t");
        EXPECT_LT(since(start).count(), 2000);
    }
    EXPECT_EQ(scene.column(replay, "state"), "DONE");
    EXPECT_EQ(scene.number(replay, "published"), 25) << scene.describe(replay);
    EXPECT_EQ(scene.number(replay, "refused"), 5) << scene.describe(replay);
    EXPECT_NE(scene.column(replay, "last_error").find("MSG_SIZE_TOO_LARGE"), std::string::npos);
    EXPECT_EQ(scene.db().value("select count(*) from outbox.deliveries"), "0");
    EXPECT_EQ(scene.db().value("select consecutive_failures from outbox.relay_status"), "0");
    Consumer elsewhere(kafka().bootstrap(), {topic});
    ASSERT_TRUE(elsewhere.read_count(25, kLong));
    elsewhere.read_for(Milliseconds(200));
    EXPECT_EQ(elsewhere.records().size(), 25U);
    EXPECT_TRUE(in_order_of_keys(elsewhere.records(), emitted));
}
