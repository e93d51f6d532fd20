// Standbys: what Kafka may hold before they have it, and what happens when one takes over.
#include <atomic>
#include <csignal>
#include <thread>

#include "faults.h"
#include "workload.h"

using namespace outbox::test;

namespace
{

constexpr auto kNothingComes = Milliseconds(1500);

// A primary and a standby that follows it. The database is made before the standby is.
struct Pair
{
    explicit Pair(const Settings &settings = {})
        : primary(with_retries(settings)), database(primary)
    {
        standby.follow(primary, "standby");
        standby.start();
    }

    // The database is dropped at the end, when the standby is no more.
    ~Pair()
    {
        if (!primary.running())
            return;
        primary.configure("synchronous_standby_names", "");
        primary.reload();
    }
    Pair(const Pair &) = delete;
    Pair &operator=(const Pair &) = delete;

    static Settings with_retries(Settings settings)
    {
        settings.insert(kFaultSettings.begin(), kFaultSettings.end());
        return settings;
    }

    bool standby_has_all()
    {
        Db here(primary, "postgres");
        const std::string lsn = here.value("select pg_current_wal_insert_lsn()");
        Db there(standby, "postgres");
        return wait_until(
            std::chrono::seconds(30), [&]
            { return there.value("select pg_last_wal_replay_lsn() >= $1::pg_lsn", lsn) == "t"; });
    }

    OwnCluster primary;
    TestDatabase database;
    PgCluster standby{"standby"};
};

int
relays(const PgCluster &server)
{
    Db db(server, "postgres");
    return std::stoi(
        db.value("select count(*) from pg_stat_activity where backend_type like 'outbox %'"));
}

std::string
emit(Db &db, const TestDatabase &database, const std::string &key = "k")
{
    return db.value("select outbox.emit($1, $2, 'e', '{}')", database.type(), key);
}

bool
has(const Consumer &consumer, const std::string &id)
{
    for (const Record &record : consumer.records())
        if (record.header("id") == id)
            return true;
    return false;
}

// The database of the primary, on the standby that has taken over.
Db
connect_to_new_primary(const Pair &pair)
{
    return Db(pair.standby, pair.database.name());
}

} // namespace

TEST(Failover, NothingReachesKafkaBeforeAPausedSynchronousStandbyHasIt)
{
    Pair pair;
    pair.primary.configure("synchronous_standby_names", "standby");
    pair.primary.reload();
    kafka().create_topic(pair.database.topic());
    Consumer consumer(kafka().bootstrap(), {pair.database.topic()});
    Db db = pair.database.connect();
    ASSERT_TRUE(wait_until(std::chrono::seconds(20),
                           [&]
                           {
                               return db.value("select count(*) from pg_stat_replication where "
                                               "sync_state = 'sync'") == "1";
                           }));
    const std::string first = emit(db, pair.database);
    ASSERT_TRUE(consumer.read_count(1, std::chrono::seconds(20)));

    pair.standby.pause();
    db.exec("set synchronous_commit = local"); // commits, and does not wait for the standby
    const std::string local = emit(db, pair.database);
    // One who does wait, and gives up: PostgreSQL warns, and the transaction stays committed here.
    std::string cancelled;
    std::thread patient(
        [&]
        {
            Db other = pair.database.connect();
            cancelled = emit(other, pair.database);
        });
    const auto in_wait = "select pid from pg_stat_activity where wait_event = 'SyncRep'";
    EXPECT_TRUE(wait_until(std::chrono::seconds(20), [&] { return !db.column(in_wait).empty(); }));
    db.exec("select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'");
    patient.join();
    EXPECT_EQ(db.value("select count(*) from outbox.events"), "3") << "visible here";
    consumer.read_for(kNothingComes);
    EXPECT_EQ(consumer.records().size(), 1U) << "the standby has not got these";

    const auto resumed = Clock::now();
    pair.standby.resume();
    EXPECT_TRUE(consumer.read_count(3, std::chrono::seconds(20)));
    const Milliseconds recovery = since(resumed);
    const Report report = check_delivery(db, consumer);
    EXPECT_TRUE(report.exact()) << report.summary();
    EXPECT_TRUE(has(consumer, local) && has(consumer, cancelled));
    print_figures("synchronous standby paused", 1, report, {}, {recovery});
}

TEST(Failover, ASynchronousStandbyThatIsGoneHoldsEventsBackUntilItReturns)
{
    Pair pair;
    pair.primary.configure("synchronous_standby_names", "standby");
    pair.primary.reload();
    kafka().create_topic(pair.database.topic());
    Consumer consumer(kafka().bootstrap(), {pair.database.topic()});
    Db db = pair.database.connect();
    emit(db, pair.database);
    ASSERT_TRUE(consumer.read_count(1, std::chrono::seconds(20)));

    pair.standby.stop(Shutdown::kImmediate);
    db.exec("set synchronous_commit = local");
    emit(db, pair.database);
    consumer.read_for(kNothingComes);
    EXPECT_EQ(consumer.records().size(), 1U) << "the standby has not got it";
    pair.standby.start();
    EXPECT_TRUE(consumer.read_count(2, std::chrono::seconds(20)));

    // An operator who gives the standby up lets events flow.
    pair.standby.stop(Shutdown::kImmediate);
    emit(db, pair.database);
    consumer.read_for(Milliseconds(300));
    EXPECT_EQ(consumer.records().size(), 2U);
    pair.primary.configure("synchronous_standby_names", "");
    pair.primary.reload();
    EXPECT_TRUE(consumer.read_count(3, std::chrono::seconds(20)));
}

TEST(Failover, NoRelayRunsOnAStandbyAndAPromotedOneGoesOnFromThePosition)
{
    Pair pair;
    kafka().create_topic(pair.database.topic());
    Consumer consumer(kafka().bootstrap(), {pair.database.topic()});
    Workload workload(pair.primary, pair.database, {});
    workload.finish();
    Db old = pair.database.connect();
    ASSERT_TRUE(check_delivery(old, consumer).exact());
    ASSERT_TRUE(wait_until(std::chrono::seconds(10),
                           [&]
                           {
                               return old.value(
                                          "select published_total from outbox.relay_status") ==
                                      old.value("select count(*) from outbox.events");
                           }));
    ASSERT_TRUE(pair.standby_has_all());
    EXPECT_EQ(relays(pair.standby), 0) << "on a standby";
    EXPECT_EQ(
        Db(pair.standby, pair.database.name()).value("select last_error from outbox.relay_status"),
        "this server is a standby: the primary publishes until this one is promoted");

    pair.primary.kill9();
    const auto killed = Clock::now();
    pair.standby.promote();
    Db db = connect_to_new_primary(pair);
    const size_t before = consumer.records().size();
    emit(db, pair.database);
    EXPECT_TRUE(consumer.read_count(before + 1, std::chrono::seconds(20)));
    const Milliseconds recovery = since(killed);
    const Report report = check_delivery(db, consumer);
    EXPECT_TRUE(report.exact()) << "the position came along: " << report.summary();
    print_figures("standby promoted, nothing lost by the database", 1, report, {}, {recovery});
}

// Under load, and with a standby that Kafka waits for: everything that Kafka has is on it.
TEST(Failover, PromotingASynchronousStandbyUnderLoadInventsNothingAndLosesNothing)
{
    Pair pair;
    pair.primary.configure("synchronous_standby_names", "standby");
    pair.primary.reload();
    kafka().create_topic(pair.database.topic());
    Consumer consumer(kafka().bootstrap(), {pair.database.topic()});
    std::atomic<bool> stopping{false};
    std::vector<std::thread> writers;
    for (int i = 0; i < 4; ++i)
        writers.emplace_back(
            [&, i]
            {
                try
                {
                    Db db = pair.database.connect();
                    // Half of them do not wait for the standby.
                    db.exec(i % 2 == 0 ? "set synchronous_commit = local"
                                       : "set synchronous_commit = off");
                    while (!stopping)
                        emit(db, pair.database, "client-" + std::to_string(i));
                }
                catch (const SqlError &)
                {
                    // the end of the primary
                }
            });
    const bool flowing = consumer.read_count(500, std::chrono::seconds(30));
    pair.primary.kill9();
    const auto killed = Clock::now();
    stopping = true;
    for (std::thread &writer : writers)
        writer.join();
    ASSERT_TRUE(flowing);
    pair.standby.promote();
    Db db = connect_to_new_primary(pair);
    const std::string after = emit(db, pair.database);
    EXPECT_TRUE(consumer.read_until(std::chrono::seconds(20), [&](const std::vector<Record> &)
                                    { return has(consumer, after); }));
    const Milliseconds recovery = since(killed);
    const Report report = check_delivery(db, consumer);
    EXPECT_TRUE(report.complete_and_ordered()) << report.summary();
    print_figures("synchronous standby promoted under load", 1, report, {}, {recovery});
}

// Nothing waits for an asynchronous standby, so Kafka may know events that the new primary does
// not: that is not promised. But no event of the new primary may be missing, although it gives its
// transactions the ids and sequence numbers of those that are gone.
TEST(Failover, WhatAnAsynchronousFailoverLosesCostsTheNewPrimaryNoneOfItsOwnEvents)
{
    Pair pair;
    kafka().create_topic(pair.database.topic());
    Consumer consumer(kafka().bootstrap(), {pair.database.topic()});
    Db old = pair.database.connect();
    for (int i = 0; i < 50; ++i)
        emit(old, pair.database, "before");
    ASSERT_TRUE(consumer.read_count(50, std::chrono::seconds(20)));
    ASSERT_TRUE(pair.standby_has_all());
    Db of_before(pair.standby, "postgres");
    pair.standby.pause();
    for (int i = 0; i < 30; ++i)
        emit(old, pair.database, "gone");
    ASSERT_TRUE(consumer.read_count(80, std::chrono::seconds(20)));
    pair.primary.kill9();
    // What the sender had already put into the connection must not arrive after all.
    for (const pid_t pid : processes_below(pair.standby.data_dir()))
        if (read_file("/proc/" + std::to_string(pid) + "/cmdline").find("walreceiver") !=
            std::string::npos)
            kill(pid, SIGKILL);
    pair.standby.expect_kill();
    pair.standby.resume();
    const auto answers = [](auto &&ask)
    {
        try
        {
            ask();
            return true;
        }
        catch (const SqlError &)
        {
            return false;
        }
    };
    // It restarts its processes only when it has noticed: sessions of before are gone then.
    ASSERT_TRUE(wait_until(std::chrono::seconds(20),
                           [&] { return !answers([&] { of_before.exec("select 1"); }); }));
    ASSERT_TRUE(
        wait_until(std::chrono::seconds(20), [&]
                   { return answers([&] { Db(pair.standby, "postgres").exec("select 1"); }); }));
    const auto killed = Clock::now();
    pair.standby.promote();
    Db db = connect_to_new_primary(pair);
    for (int i = 0; i < 60; ++i)
        emit(db, pair.database, "after");
    const Report report = check_delivery(db, consumer);
    const Milliseconds recovery = since(killed);
    EXPECT_TRUE(report.lost.empty()) << report.summary();
    EXPECT_TRUE(report.misordered.empty()) << report.summary();
    EXPECT_EQ(report.invented.size(), 30U) << "those that the failover lost";
    print_figures("asynchronous failover that loses commits", 1, report, {}, {recovery});
}

// The steps of docs/operations.md: nothing is left behind, and nothing comes twice.
TEST(Failover, APlannedOneAfterADrainPublishesEachEventOnce)
{
    Pair pair;
    kafka().create_topic(pair.database.topic());
    Consumer consumer(kafka().bootstrap(), {pair.database.topic()});
    {
        Workload workload(pair.primary, pair.database, {});
        workload.finish();
    }
    {
        Db db = pair.database.connect();
        EXPECT_EQ(db.value("select outbox.drain('30 s')"), "t");
        EXPECT_EQ(db.value("select count(*) from outbox.event_status where status <> 'PUBLISHED'"),
                  "0");
    }
    pair.primary.stop(Shutdown::kFast);
    pair.standby.promote();
    Db db(pair.standby, pair.database.name());
    for (int i = 0; i < 20; ++i)
        emit(db, pair.database);
    EXPECT_EQ(db.value("select outbox.drain('30 s')"), "t");
    const Report report = check_delivery(db, consumer);
    EXPECT_TRUE(report.exact()) << report.summary();
}
