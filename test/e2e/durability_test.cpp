// Kafka never holds what the database can still lose: asynchronous commits and a crash.
#include <csignal>
#include <mutex>
#include <set>
#include <thread>

#include "faults.h"
#include "workload.h"

using namespace outbox::test;

namespace
{

// An asynchronous commit stays in memory until somebody else writes the log: only the WAL writer
// does, when it is told of commits that fill a page.
const Settings kLazyWriter = {
    {"wal_writer_delay", "10s"},         {"wal_writer_flush_after", "1GB"},
    {"bgwriter_lru_maxpages", "0"},      {"autovacuum", "off"},
    {"checkpoint_timeout", "1h"},        {"fsync", "off"},
    {"outbox.backoff_initial", "100ms"}, {"outbox.backoff_max", "500ms"}};

Settings
with(Settings settings, const std::string &name, const std::string &value)
{
    settings[name] = value;
    return settings;
}

bool
is_stored(Db &db, const std::string &id)
{
    return db.value("select count(*) from outbox.events where id = $1", id) == "1";
}

std::string
emit(Db &db, const TestDatabase &database)
{
    return db.value("select outbox.emit($1, 'k', 'e', '{}')", database.type());
}

bool
is_lost(Db &db)
{
    try
    {
        db.exec("select 1");
        return false;
    }
    catch (const SqlError &)
    {
        return true;
    }
}

// Stops the WAL writer where it holds no lock: while it waits for its next turn.
pid_t
stop_wal_writer(Db &db)
{
    pid_t writer = 0;
    const auto stopped = [&]
    {
        writer = static_cast<pid_t>(
            std::stoi(db.value("select coalesce(max(pid), 0) from pg_stat_activity where "
                               "backend_type = 'walwriter'")));
        if (writer == 0 || kill(writer, SIGSTOP) != 0)
            return false;
        if (db.value("select count(*) from pg_stat_activity where pid = $1 and "
                     "wait_event = 'WalWriterMain'",
                     writer) == "1")
            return true;
        kill(writer, SIGCONT);
        return false;
    };
    EXPECT_TRUE(wait_until(std::chrono::seconds(20), stopped));
    return writer;
}

// Emits by an asynchronous commit while the WAL writer stands still, waits until Kafka has the
// event, and crashes the server. Returns in how many rounds the server had lost the event by then.
int
lost_after_publishing(const Settings &settings, int rounds)
{
    OwnCluster server(settings);
    server.expect_kill();
    TestDatabase database(server);
    kafka().create_topic(database.topic());
    Consumer consumer(kafka().bootstrap(), {database.topic()});
    int lost = 0;
    for (int round = 0; round < rounds; ++round)
    {
        Db db = database.connect();
        const pid_t writer = stop_wal_writer(db);
        db.exec("set synchronous_commit = off");
        const std::string id = emit(db, database);
        const bool arrived =
            consumer.read_until(std::chrono::seconds(30), [&](const std::vector<Record> &records)
                                { return !records.empty() && records.back().header("id") == id; });
        EXPECT_TRUE(arrived) << "round " << round;
        database.kill_process(writer);
        Db after = database.connect();
        lost += is_stored(after, id) ? 0 : 1;
    }
    return lost;
}

} // namespace

TEST(Durability, AnEventThatKafkaHasIsStillInTheDatabaseAfterACrashAlthoughItsCommitWasAsynchronous)
{
    EXPECT_EQ(lost_after_publishing(kLazyWriter, 5), 0);
}

// The control: the same without the guard. If this loses nothing, the test above sees nothing.
TEST(Durability, WithoutTheGuardTheDatabaseLosesWhatKafkaHas)
{
    EXPECT_EQ(lost_after_publishing(with(kLazyWriter, "outbox.guard_durability", "off"), 5), 5);
}

namespace
{

// Clients that commit asynchronously as fast as they can, and remember what they were told.
class AsynchronousClients
{
public:
    AsynchronousClients(const TestDatabase &database, int clients) : database_(database)
    {
        for (int i = 0; i < clients; ++i)
            threads_.emplace_back([this, i] { run("client-" + std::to_string(i)); });
    }
    ~AsynchronousClients() { join(); }
    AsynchronousClients(const AsynchronousClients &) = delete;
    AsynchronousClients &operator=(const AsynchronousClients &) = delete;

    // They end by themselves when the server goes.
    void join()
    {
        for (std::thread &thread : threads_)
            thread.join();
        threads_.clear();
    }

    // Events that were committed, as far as the clients know.
    std::vector<std::string> committed()
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        return committed_;
    }

private:
    void run(const std::string &key)
    {
        try
        {
            Db db = database_.connect();
            db.exec("set synchronous_commit = off");
            for (;;)
            {
                const std::string id =
                    db.value("select outbox.emit($1, $2, 'e', '{}')", database_.type(), key);
                const std::lock_guard<std::mutex> lock(mutex_);
                committed_.push_back(id);
            }
        }
        catch (const SqlError &)
        {
            // the crash
        }
    }

    const TestDatabase &database_;
    std::mutex mutex_;
    std::vector<std::string> committed_;
    std::vector<std::thread> threads_;
};

} // namespace

TEST(Durability, WhatACrashTakesFromAsynchronousWritersUnderLoadIsNotInKafka)
{
    OwnCluster server(kLazyWriter);
    TestDatabase database(server);
    kafka().create_topic(database.topic());
    Consumer consumer(kafka().bootstrap(), {database.topic()});
    FaultRounds faults("immediate stop, asynchronous commits", consumer, choose_seed());
    size_t lost_by_the_server = 0;
    // The relay flushes what it sees at once: often the server loses nothing. Then it is hit again.
    constexpr int kMostRounds = 30;
    const auto again = [&](int round)
    { return round < fault_rounds(3) || (round < kMostRounds && lost_by_the_server == 0); };
    for (int round = 0; again(round) && !HasFailure(); ++round)
    {
        AsynchronousClients clients(database, 4);
        ASSERT_TRUE(
            wait_until(std::chrono::seconds(20), [&] { return clients.committed().size() > 100; }));
        faults.read_for_random(Milliseconds(400));
        faults.round(
            [&]
            {
                server.restart(Shutdown::kImmediate);
                clients.join();
            },
            [&]
            {
                Db db = database.connect();
                const auto list = db.column("select id from outbox.events");
                const std::set<std::string> stored(list.begin(), list.end());
                for (const std::string &id : clients.committed())
                    lost_by_the_server += 1 - stored.count(id);
                db.exec("select outbox.emit($1, 'after', 'e', '{}')", database.type());
            });
    }
    Db db = database.connect();
    faults.judge(check_delivery(db, consumer));
    EXPECT_GT(lost_by_the_server, 0U) << "nothing was at stake";
    std::printf("%zu committed events lost by the server\n", lost_by_the_server);
}

// After a crash the server gives the ids of lost transactions to new ones. Whoever had taken the
// old ones for published would never look at the new ones.
TEST(Durability, EventsWithTransactionIdsThatACrashTookFromOthersArePublished)
{
    OwnCluster server(kLazyWriter);
    server.expect_kill();
    TestDatabase database(server);
    kafka().create_topic(database.topic());
    Consumer consumer(kafka().bootstrap(), {database.topic()});
    size_t reused = 0;
    for (int round = 0; round < 3; ++round)
    {
        const pid_t relay = database.relay_pid();
        std::vector<std::string> lost;
        {
            Db db = database.connect();
            const std::string seen = emit(db, database);
            ASSERT_EQ(db.value("select outbox.wait_published($1)", seen), "t");
            db.exec("set synchronous_commit = off");
            ASSERT_EQ(kill(relay, SIGSTOP), 0); // it would flush what it sees
            for (int i = 0; i < 20; ++i)
                lost.push_back(db.value("select e.xid from outbox.events e where e.id = $1",
                                        emit(db, database)));
            ASSERT_EQ(kill(relay, SIGKILL), 0);
            ASSERT_TRUE(wait_until(std::chrono::seconds(20), [&] { return is_lost(db); }));
        }
        Db db = database.connect();
        for (int i = 0; i < 40; ++i)
            emit(db, database);
        for (const std::string &xid : lost)
            reused +=
                std::stoul(db.value("select count(*) from outbox.events where xid = $1", xid));
    }
    Db db = database.connect();
    const Report report = check_delivery(db, consumer);
    EXPECT_TRUE(report.complete_and_ordered()) << report.summary();
    EXPECT_GT(reused, 0U) << "no transaction id was used twice";
    print_figures("transaction ids used again after a crash", 3, report);
}
