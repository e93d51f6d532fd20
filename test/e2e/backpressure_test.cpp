// outbox.max_backlog_events: the count that it rests on is true, whatever happens to the relay.
#include <atomic>
#include <thread>

#include "servers.h"

using namespace outbox::test;

namespace
{

constexpr int kLimit = 50;

class Limited
{
public:
    explicit Limited(PgCluster &server, int limit = kLimit) : database_(server)
    {
        kafka().create_topic(database_.topic());
        Db db = database_.connect();
        db.exec("alter database " + database_.name() +
                " set outbox.max_backlog_events = " + std::to_string(limit));
        EXPECT_EQ(db.value("select pg_reload_conf()"), "t");
    }

    TestDatabase &database() { return database_; }
    Db connect() const { return database_.connect(); }

    // Emits one event; false when it was refused for the backlog.
    bool emit(Db &db)
    {
        try
        {
            db.exec("select outbox.emit($1, 'k', 'made', '{}')", database_.type());
            return true;
        }
        catch (const SqlError &error)
        {
            EXPECT_EQ(error.sqlstate(), "53400") << error.what();
            return false;
        }
    }

    bool backlog_becomes(int events)
    {
        return wait_until(std::chrono::seconds(20),
                          [&]
                          {
                              Db db = connect();
                              return db.value("select counted and backlog_events = $1 "
                                              "from outbox.backpressure",
                                              events) == "t";
                          });
    }

private:
    TestDatabase database_;
};

} // namespace

TEST(Backpressure, EventsAreRefusedWhileKafkaIsAwayAndTakenAgainAfterwards)
{
    kafka();
    OwnCluster server({{"outbox.backoff_initial", "100ms"}, {"outbox.backoff_max", "500ms"}});
    Limited scene(server);
    Db db = scene.connect();
    ASSERT_TRUE(scene.emit(db));
    ASSERT_EQ(db.value("select outbox.drain('20 s')"), "t");
    ASSERT_TRUE(scene.backlog_becomes(0));
    kafka().stop();
    int taken = 0;
    while (taken <= 2 * kLimit && scene.emit(db))
        taken++;
    EXPECT_EQ(taken, kLimit);
    EXPECT_EQ(db.value("select level || ' ' || backlog_events from outbox.backpressure"),
              "refusing " + std::to_string(kLimit));
    EXPECT_TRUE(wait_until(std::chrono::seconds(20),
                           [&] { return server.log_contains("outbox refuses events: "); }));
    // The application continues: the transaction is as good as after any other error.
    db.exec("begin; savepoint s");
    EXPECT_FALSE(scene.emit(db));
    db.exec("rollback to s; create table public.still_works (n int); commit");

    kafka().start();
    EXPECT_EQ(db.value("select outbox.drain('30 s')"), "t");
    EXPECT_TRUE(scene.backlog_becomes(0));
    EXPECT_TRUE(scene.emit(db));
    EXPECT_TRUE(wait_until(std::chrono::seconds(20),
                           [&] { return server.log_contains("outbox accepts events again: "); }));
    Consumer consumer(kafka().bootstrap(), {scene.database().topic()});
    const Report report = check_delivery(db, consumer);
    EXPECT_TRUE(report.exact()) << report.summary();
    EXPECT_EQ(report.events, static_cast<size_t>(kLimit) + 2);
}

// The bound that the documentation states: each session adds what it had not committed.
TEST(Backpressure, ManySessionsOvershootByNoMoreThanTheirOpenTransactions)
{
    constexpr int kSessions = 8;
    constexpr int kEach = 5; // events of a transaction
    Limited scene(cluster());
    Db operators = scene.connect();
    operators.exec("select outbox.pause()");
    ASSERT_TRUE(scene.database().reaches_state("paused"));
    // The relay's window holds this one while it is paused, so no snapshot is taken among the
    // commits below, and none of them counts twice.
    ASSERT_TRUE(scene.emit(operators));
    ASSERT_TRUE(wait_until(std::chrono::seconds(20),
                           [&]
                           {
                               return operators.value("select oldest_event_at is not null and "
                                                      "backlog_events = 1 "
                                                      "from outbox.relay_status") == "t";
                           }));
    std::vector<std::thread> threads;
    for (int session = 0; session < kSessions; ++session)
        threads.emplace_back(
            [&]
            {
                Db db = scene.connect();
                for (int round = 0; round < 2 * kLimit; ++round)
                    try
                    {
                        db.exec("select outbox.emit($1, 'k', 'made', '{}') "
                                "from generate_series(1, $2)",
                                scene.database().type(), kEach);
                    }
                    catch (const SqlError &error)
                    {
                        EXPECT_EQ(error.sqlstate(), "53400") << error.what();
                        return;
                    }
                ADD_FAILURE() << "was never refused";
            });
    for (std::thread &thread : threads)
        thread.join();
    const int backlog = std::stoi(operators.value("select count(*) from outbox.events"));
    EXPECT_GE(backlog, kLimit - kEach + 1);
    EXPECT_LT(backlog, kLimit + kSessions * kEach);
    EXPECT_EQ(operators.value("select backlog_events from outbox.backpressure"),
              std::to_string(backlog));
    operators.exec("select outbox.resume()");
    EXPECT_EQ(operators.value("select outbox.drain('20 s')"), "t");
}

// Ten times the limit was published before: none of that may count again.
TEST(Backpressure, ARelayThatStartsAgainRefusesNothingFalsely)
{
    Limited scene(cluster());
    Db db = scene.connect();
    for (int round = 0; round < 10; ++round)
    {
        db.exec("select outbox.emit($1, 'k', 'made', '{}') from generate_series(1, 49)",
                scene.database().type());
        ASSERT_EQ(db.value("select outbox.drain('20 s')"), "t");
        ASSERT_TRUE(scene.backlog_becomes(0));
    }
    for (int round = 0; round < 3; ++round)
    {
        const pid_t relay = scene.database().relay_pid();
        db.exec("select pg_terminate_backend($1)", relay);
        int emitted = 0;
        ASSERT_TRUE(wait_until(std::chrono::seconds(20),
                               [&]
                               {
                                   if (emitted++ < kLimit)
                                   {
                                       EXPECT_TRUE(scene.emit(db)) << emitted;
                                   }
                                   return scene.database().relay_pid() != relay;
                               }));
        ASSERT_EQ(db.value("select outbox.drain('20 s')"), "t");
        ASSERT_TRUE(scene.backlog_becomes(0));
    }
}

TEST(Backpressure, WhatWasThereBeforeTheServerStartedCountsOnceARelayHasLooked)
{
    OwnCluster server;
    Limited scene(server);
    {
        Db db = scene.connect();
        db.exec("select outbox.pause()");
        ASSERT_TRUE(scene.database().reaches_state("paused"));
        // From the first event on a window is open, and what commits while the relay takes its
        // snapshot counts twice until the next.
        ASSERT_TRUE(scene.emit(db));
        ASSERT_TRUE(scene.backlog_becomes(1));
        while (scene.emit(db))
            ;
        ASSERT_TRUE(scene.backlog_becomes(kLimit));
    }
    for (const Shutdown how : {Shutdown::kFast, Shutdown::kImmediate})
    {
        server.restart(how);
        ASSERT_TRUE(scene.backlog_becomes(kLimit));
        Db db = scene.connect();
        EXPECT_FALSE(scene.emit(db));
    }
    Db db = scene.connect();
    db.exec("select outbox.resume()");
    EXPECT_EQ(db.value("select outbox.drain('20 s')"), "t");
    EXPECT_TRUE(scene.backlog_becomes(0));
    EXPECT_TRUE(scene.emit(db));
}

// The new relay continues in the middle of a window, and does not know how many events there were.
TEST(Backpressure, ARelayThatStartsAgainInTheMiddleOfABacklogKeepsItsCount)
{
    constexpr int kEvents = 4000;
    Limited scene(cluster(), 2 * kEvents);
    Db db = scene.connect();
    // Slow, with little on its way.
    db.exec("alter database " + scene.database().name() + " set outbox.max_in_flight = 100");
    db.exec("alter database " + scene.database().name() +
            " set outbox.kafka_config = 'batch.num.messages=1'");
    // Not a reload: the relay that the first setting has started anew may have begun with this one.
    scene.database().restart_relay();
    db.exec("select outbox.emit($1, 'k', 'made', '{}') from generate_series(1, $2)",
            scene.database().type(), kEvents);
    ASSERT_TRUE(
        wait_until(std::chrono::seconds(20), [&]
                   { return db.value("select published > 0 from outbox.stats_total") == "t"; }));
    db.exec("select outbox.pause()");
    ASSERT_TRUE(scene.database().reaches_state("paused"));
    const auto left = [&]
    {
        return db.value("select $1 - published_total || ' left, ' || in_flight_events || ' sent' "
                        "from outbox.relay_status",
                        kEvents);
    };
    const auto backlog = [&] { return db.value("select backlog_events from outbox.backpressure"); };
    ASSERT_TRUE(
        wait_until(std::chrono::seconds(20), [&] { return left() == backlog() + " left, 0 sent"; }))
        << left();
    const std::string then = backlog();
    ASSERT_GT(std::stoi(then), 0) << "was too fast to be paused";
    scene.database().restart_relay();
    ASSERT_TRUE(scene.database().reaches_state("paused"));
    EXPECT_EQ(backlog(), then);
    EXPECT_TRUE(scene.emit(db));
    EXPECT_EQ(backlog(), std::to_string(std::stoi(then) + 1));
    db.exec("select outbox.resume()");
    EXPECT_EQ(db.value("select outbox.drain('40 s')"), "t");
    EXPECT_TRUE(scene.backlog_becomes(0));
}
