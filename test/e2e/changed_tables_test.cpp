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
