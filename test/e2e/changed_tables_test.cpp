// What a database administrator may do to outbox.events, and the relay still reads it right.
#include <atomic>
#include <thread>

#include "servers.h"

using namespace outbox::test;

TEST(ChangedTables, TheRelayReadsPartitionsWhoseColumnsAreInOtherPlaces)
{
    TestDatabase database(cluster());
    Db db = database.connect();
    Consumer consumer(kafka().bootstrap(), {database.topic()});
    size_t events = 0;
    const auto expect_event = [&](const std::string &id)
    {
        db.exec("select outbox.emit($1, $2, 'made', '{\"a\": 1}', '{\"h\": \"x\"}', "
                "'key', schema_version => 7)",
                database.type(), id);
        ASSERT_TRUE(consumer.read_count(++events, std::chrono::seconds(20))) << id;
        const Record &record = consumer.records().back();
        EXPECT_EQ(record.key, "key") << id;
        EXPECT_EQ(record.value, "{\"a\": 1}") << id;
        EXPECT_EQ(record.header("h"), "x") << id;
        EXPECT_EQ(record.header("event_type"), "made") << id;
        EXPECT_EQ(record.header("aggregate_type"), database.type()) << id;
        EXPECT_EQ(record.header("schema_version"), "7") << id;
    };
    expect_event("as made");
    db.exec("alter table outbox.events add column note text default 'x'");
    expect_event("with a column");
    db.exec("alter table outbox.events drop column note");
    expect_event("without it");
    // The current partition gets holes, and its columns in another order.
    db.exec("begin; alter table outbox.events detach partition outbox.events_0;"
            "alter table outbox.events_0 add column hole int;"
            "alter table outbox.events_0 drop column hole;"
            "alter table outbox.events_0 add column type_again text;"
            "update outbox.events_0 set type_again = event_type;"
            "alter table outbox.events_0 drop column event_type;"
            "alter table outbox.events_0 rename column type_again to event_type;"
            "alter table outbox.events_0 alter column event_type set not null;"
            "alter table outbox.events attach partition outbox.events_0 for values in (0); commit");
    expect_event("in other places");
}

// A crash would empty them. What the relay has set aside would be lost, or published events would
// go out again, or others to the topics of before.
TEST(ChangedTables, TheRelayStopsForUnloggedTables)
{
    OwnCluster server;
    TestDatabase database(server);
    Db db = database.connect();
    for (const char *table : {"deliveries", "pauses", "routes", "ring", "subscriptions",
                              "subscription_history", "replay_requests", "relay_position"})
    {
        const std::string name = std::string("outbox.") + table;
        db.exec("alter table " + name + " set unlogged");
        ASSERT_TRUE(database.reaches_state("stopped")) << table;
        EXPECT_NE(
            db.value("select last_error from outbox.relay_status").find(name + " is unlogged"),
            std::string::npos)
            << table;
        const std::string id =
            db.value("select outbox.emit($1, 'k', 'made', '{}')", database.type());
        db.exec("alter table " + name + " set logged");
        db.exec("select outbox.adopt_position()");
        EXPECT_EQ(db.value("select outbox.wait_published($1, '20 s')", id), "t") << table;
    }
    constexpr const char *kWrites[][2] = {
        {"processed_events", "select outbox.mark_processed(gen_random_uuid(), 'c')"},
        {"consumer_offsets", "select outbox.record_offset('c', 't', 0, 1)"},
        {"idempotency_keys", "select outbox.idempotency_begin('s', 'k', sha256('x'))"}};
    for (const auto &[table, statement] : kWrites)
    {
        db.exec(std::string("alter table outbox.") + table + " set unlogged");
        try
        {
            db.exec(statement);
            ADD_FAILURE() << table << ": an unlogged table was taken";
        }
        catch (const SqlError &error)
        {
            EXPECT_EQ(error.sqlstate(), "55000") << error.what();
        }
        db.exec(std::string("alter table outbox.") + table + " set logged");
        db.exec(statement);
    }
}

// It has another row then, whatever is in it.
TEST(ChangedTables, ARewrittenPositionIsSaidToBeChangedAlsoWhenNothingIsPublished)
{
    OwnCluster server;
    TestDatabase database(server);
    Db db = database.connect();
    const std::string first = db.value("select outbox.emit($1, 'k', 'e', '{}')", database.type());
    ASSERT_EQ(db.value("select outbox.wait_published($1, '20 s')", first), "t");
    ASSERT_EQ(db.value("select outbox.drain('20 s')"), "t");
    db.exec("update outbox.relay_position set written_by = written_by");
    ASSERT_TRUE(database.reaches_state("stopped"));
    EXPECT_NE(
        db.value("select last_error from outbox.relay_status").find("it was changed, and not"),
        std::string::npos);
    db.exec("select outbox.adopt_position()");
    const std::string last = db.value("select outbox.emit($1, 'k', 'e', '{}')", database.type());
    EXPECT_EQ(db.value("select outbox.wait_published($1, '20 s')", last), "t");
}

// What a session knows of our tables is made anew when one of them has changed, and of that it
// hears at any look into the catalogue. New sessions look most.
TEST(ChangedTables, SessionsThatHearOfChangesWhileTheyLookCrashNothing)
{
    constexpr int kSessions = 4;
    constexpr int kTurns = 100;
    OwnCluster server;
    TestDatabase database(server);
    const pid_t relay = database.relay_pid();
    std::atomic<int> busy{kSessions};
    std::vector<std::thread> threads;
    for (int n = 0; n < kSessions; ++n)
        threads.emplace_back(
            [&, n]
            {
                try
                {
                    for (int i = 0; i < kTurns; ++i)
                        database.connect().exec("select outbox.emit($1, $2, 'e', '{}')",
                                                database.type(), "k" + std::to_string(n));
                }
                catch (const std::exception &error)
                {
                    ADD_FAILURE() << error.what();
                }
                --busy;
            });
    for (int n = 0; n < 2; ++n)
        threads.emplace_back(
            [&]
            {
                try
                {
                    Db db = database.connect();
                    while (busy > 0)
                        db.exec("analyze outbox.events_0, outbox.events_1");
                }
                catch (const std::exception &error)
                {
                    ADD_FAILURE() << error.what();
                }
            });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(database.connect().value("select outbox.drain('20 s')"), "t");
    EXPECT_EQ(database.relay_pid(), relay) << "the relay was restarted";
}
