// Somebody sets the sequence of event numbers back: a dump of data that names it, setval(). No two
// events have one number, none is lost, and the order of keys stays.
#include <atomic>
#include <map>
#include <random>
#include <thread>

#include "faults.h"
#include "real_kafka_test.h"
#include "small_topic.h"

#include "support/seed.h"

using namespace outbox::test;

namespace
{

constexpr const char *kSetBack = "was set back, and is set forward again";

// No two events have the same number.
void
expect_distinct(Db &db)
{
    EXPECT_EQ(db.value("select count(*) - count(distinct seq) from outbox.events"), "0");
}

} // namespace

// What waits behind a refused event is found by its number.
REAL_KAFKA_TEST(SetBack, AnEventThatIsEmittedAfterwardsWaitsInItsLineAndGoesOut)
{
    OwnCluster server(kFaultSettings);
    SmallTopic scene(server, {{"outbox.max_attempts", "1"}});
    const std::string head = scene.emit_too_large("k");
    ASSERT_TRUE(scene.reaches_status(head, "FAILED")) << scene.describe();
    Ids line = scene.emit_several("k", 3);
    ASSERT_TRUE(wait_until(std::chrono::seconds(20), [&] { return scene.deliveries() == 4; }));
    scene.db().exec("select setval('outbox.events_seq', seq, false) from outbox.events "
                    "where id = $1",
                    head);
    for (const std::string &id : scene.emit_several("k", 4))
        line.push_back(id);
    EXPECT_TRUE(wait_until(std::chrono::seconds(20), [&] { return scene.deliveries() == 8; }))
        << scene.describe();
    expect_distinct(scene.db());
    scene.db().exec("select outbox.discard($1, 'test')", head);
    EXPECT_TRUE(scene.arrive(line)) << scene.describe();
    scene.expect_only("k", line);
    EXPECT_NE(server.log_text().find(kSetBack), std::string::npos);
}

// Nobody has emitted anything since the server started.
REAL_KAFKA_TEST(SetBack, ARelayThatStartsSetsTheSequenceForward)
{
    OwnCluster server(kFaultSettings);
    SmallTopic scene(server, {{"outbox.max_attempts", "1"}});
    const Ids published = scene.emit_several("other", 5);
    ASSERT_TRUE(scene.arrive(published));
    const std::string head = scene.emit_too_large("k");
    ASSERT_TRUE(scene.reaches_status(head, "FAILED")) << scene.describe();
    const std::string last = scene.db().value("select last_value from outbox.events_seq");
    server.stop();
    server.start();
    scene.connect_again();
    ASSERT_TRUE(scene.database().reaches_state("running"));
    scene.db().exec("select setval('outbox.events_seq', 2)");
    const std::string next = scene.emit("k");
    EXPECT_EQ(scene.db().value("select seq > $1 from outbox.events where id = $2", last, next),
              "t");
    scene.db().exec("select setval('outbox.events_seq', 2)");
    server.stop();
    server.start();
    scene.connect_again();
    EXPECT_TRUE(wait_until(std::chrono::seconds(20),
                           [&]
                           {
                               return scene.db().value(
                                          "select last_value >= $1::bigint from outbox.events_seq",
                                          last) == "t";
                           }));
    scene.db().exec("select outbox.discard($1, 'test')", head);
    EXPECT_TRUE(scene.arrive({next}));
    expect_distinct(scene.db());
}

// What the server knew is gone, and nothing of what waits has a number in outbox.deliveries or in
// the position.
TEST(SetBack, ARelayThatStartsCountsWhatWaits)
{
    OwnCluster server;
    TestDatabase database(server);
    Db db = database.connect();
    const std::string first =
        db.value("select outbox.emit($1, 'k', 'good', '{}')", database.type());
    ASSERT_EQ(db.value("select outbox.wait_published($1, '20 s')", first), "t");
    db.exec("select outbox.pause('test')");
    ASSERT_TRUE(database.reaches_state("paused"));
    db.exec("select count(outbox.emit($1, 'k', 'good', '{}')) from generate_series(1, 50)",
            database.type());
    db.exec("select setval('outbox.events_seq', 1)");
    server.stop();
    server.start();
    db = database.connect();
    EXPECT_TRUE(
        wait_until(std::chrono::seconds(20), [&]
                   { return db.value("select last_value > 50 from outbox.events_seq") == "t"; }));
    db.exec("select count(outbox.emit($1, 'k', 'good', '{}')) from generate_series(1, 50)",
            database.type());
    expect_distinct(db);
    db.exec("select outbox.resume()");
    EXPECT_EQ(db.value("select outbox.drain('20 s')"), "t");
}

// A new extension counts from 1.
TEST(SetBack, AnExtensionThatIsMadeAnewCountsFromItsBeginning)
{
    TestDatabase database(cluster());
    Db db = database.connect();
    db.exec("select count(outbox.emit($1, 'k', 'good', '{}')) from generate_series(1, 5)",
            database.type());
    db.exec("drop extension outbox");
    db.exec("create extension outbox");
    const std::string id = db.value("select outbox.emit($1, 'k', 'good', '{}')", database.type());
    EXPECT_EQ(db.value("select seq from outbox.events where id = $1", id), "1");
    EXPECT_EQ(db.value("select outbox.wait_published($1, '20 s')", id), "t");
}

// The numbers of the one that stays count.
TEST(SetBack, AnExtensionWhoseMakingAnewIsRolledBackKeepsItsNumbers)
{
    TestDatabase database(cluster());
    Db db = database.connect();
    db.exec("select count(outbox.emit($1, 'k', 'good', '{}')) from generate_series(1, 50)",
            database.type());
    ASSERT_EQ(db.value("select outbox.drain('20 s')"), "t");
    db.exec("begin");
    db.exec("drop extension outbox");
    db.exec("create extension outbox");
    db.exec("select outbox.emit($1, 'k', 'good', '{}')", database.type());
    db.exec("rollback");
    db.exec("select setval('outbox.events_seq', 1)");
    db.exec("select count(outbox.emit($1, 'k', 'good', '{}')) from generate_series(1, 50)",
            database.type());
    EXPECT_EQ(db.value("select count(*) from outbox.events"), "100");
    expect_distinct(db);
    EXPECT_EQ(db.value("select outbox.drain('20 s')"), "t");
}

// Nobody can emit then, and a relay that starts publishes what there is.
TEST(SetBack, ASequenceThatDescendsKeepsNoRelayFromItsWork)
{
    TestDatabase database(cluster());
    kafka().create_topic(database.topic());
    Db db = database.connect();
    db.exec("select outbox.pause('test')");
    const std::string id = db.value("select outbox.emit($1, 'k', 'good', '{}')", database.type());
    db.exec("alter sequence outbox.events_seq increment by -1; "
            "select setval('outbox.events_seq', 1)");
    database.restart_relay();
    db.exec("select outbox.resume()");
    EXPECT_EQ(db.value("select outbox.wait_published($1, '20 s')", id), "t");
    db.exec("alter sequence outbox.events_seq increment by 1");
    const std::string next = db.value("select outbox.emit($1, 'k', 'good', '{}')", database.type());
    EXPECT_EQ(db.value("select outbox.wait_published($1, '20 s')", next), "t");
    expect_distinct(db);
}

// What has to wait and has its number in common with an event that waits already is not taken for
// that: it goes out when the other one's row is gone.
REAL_KAFKA_TEST(SetBack, ARowWithTheNumberOfAnotherEventIsNotTakenForThatOfTheEvent)
{
    SmallTopic scene(cluster(), {{"outbox.max_attempts", "1"}});
    Db db = scene.connect();
    const auto rows = [&](const std::string &id)
    { return db.value("select count(*) from outbox.deliveries where event_id = $1", id); };
    // The row of an event that waits gets the number of the next one.
    const auto take_next_number = [&](const std::string &state)
    {
        const std::string other = scene.emit("k");
        EXPECT_TRUE(wait_until(std::chrono::seconds(20), [&] { return rows(other) == "1"; }));
        return db.value("update outbox.deliveries set state = $2, seq = (select last_value + 1 "
                        "from outbox.events_seq) where event_id = $1 returning seq",
                        other, state);
    };
    const std::string head = scene.emit_too_large("k");
    ASSERT_TRUE(scene.reaches_status(head, "FAILED")) << scene.describe();
    (void) take_next_number("DISCARDED");
    const std::string second = scene.emit("k");
    EXPECT_TRUE(wait_until(std::chrono::seconds(20), [&] { return rows(second) == "1"; }));
    const std::string taken = take_next_number("WAITING");
    const std::string third = scene.emit("k");
    EXPECT_TRUE(wait_until(std::chrono::seconds(20),
                           [&]
                           {
                               return db.value("select coalesce(last_error, '') like "
                                               "'%has the same number%' "
                                               "from outbox.relay_status") == "t";
                           }))
        << scene.describe();
    db.exec("delete from outbox.deliveries where seq = $1 and event_id <> $2", taken, third);
    EXPECT_TRUE(wait_until(std::chrono::seconds(20), [&] { return rows(third) == "1"; }))
        << scene.describe();
    db.exec("select outbox.discard($1, 'test')", head);
    EXPECT_TRUE(scene.arrive({second, third})) << scene.describe();
    scene.expect_only("k", {second, third});
}

// What is read again after a start counts as settled by its own row only.
TEST(SetBack, AnEventThatHasItsNumberInCommonWithADiscardedOneIsPublished)
{
    TestDatabase database(cluster());
    kafka().create_topic(database.topic());
    Db db = database.connect();
    db.exec("select outbox.pause('test')");
    ASSERT_TRUE(database.reaches_state("paused"));
    const std::string id = db.value("select outbox.emit($1, 'k', 'good', '{}')", database.type());
    db.exec("insert into outbox.deliveries (seq, xid, slot, event_id, lane, topic, partition_key, "
            "state, blocking) select seq, xid, slot, id, 0, $2, 'k', 'DISCARDED', false "
            "from outbox.events where id = $1",
            id, database.topic());
    EXPECT_EQ(db.value("update outbox.deliveries set event_id = gen_random_uuid() "
                       "returning event_id <> $1",
                       id),
              "t");
    database.restart_relay();
    db.exec("select outbox.resume()");
    Consumer consumer(kafka().bootstrap(), {database.topic()});
    EXPECT_TRUE(consumer.read_count(1, std::chrono::seconds(20)));
}

// Sessions emit all the while, also when it is set back again before it is set forward.
TEST(SetBack, SessionsThatEmitMeanwhileKeepTheOrderOfTheirKeys)
{
    constexpr int kSessions = 4;
    constexpr int kEvents = 300;
    const unsigned seed = choose_seed();
    std::mt19937 random(seed);
    TestDatabase database(cluster());
    kafka().create_topic(database.topic());
    std::atomic<int> busy{kSessions};
    std::vector<std::thread> sessions;
    for (int n = 0; n < kSessions; ++n)
        sessions.emplace_back(
            [&, n]
            {
                Db session = database.connect();
                for (int i = 0; i < kEvents; ++i)
                    session.exec("select outbox.emit($1, $2, 'good', to_jsonb($3::int))",
                                 database.type(), "k" + std::to_string(n), i);
                --busy;
            });
    Db db = database.connect();
    while (busy > 0)
    {
        db.exec("select setval('outbox.events_seq', greatest(1, last_value - $1::int)) "
                "from outbox.events_seq",
                std::uniform_int_distribution<int>(0, 30000)(random));
        db.exec("do $$ begin for i in 1..30000 loop perform setval('outbox.events_seq', 1); "
                "end loop; end $$");
        std::this_thread::sleep_for(Milliseconds(5));
    }
    for (std::thread &session : sessions)
        session.join();
    expect_distinct(db);
    Consumer consumer(kafka().bootstrap(), {database.topic()});
    EXPECT_TRUE(consumer.read_count(kSessions * kEvents, std::chrono::seconds(60)));
    std::map<std::string, int> next;
    for (const Record &record : consumer.records())
        EXPECT_EQ(record.value, std::to_string(next[record.key.value_or("")]++)) << "seed " << seed;
}
