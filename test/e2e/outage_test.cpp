// Kafka or the relay goes away and comes back: nothing is lost, and nobody waits for it.
#include <csignal>

#include "servers.h"
#include "workload.h"

using namespace outbox::test;

namespace
{

// For a shutdown whose checkpoint has little to write: a slow disk is not the relay's.
constexpr auto kPrompt = std::chrono::seconds(2);

// Retries quickly, so that tests do not wait for the backoff.
const Settings kQuickRetries = {{"outbox.backoff_initial", "100ms"},
                                {"outbox.backoff_max", "500ms"}};

enum class Away
{
    kStopped,
    kKilled
};

// Takes Kafka away, and brings it back even when the test fails in between.
class KafkaOutage
{
public:
    explicit KafkaOutage(Away how = Away::kStopped)
    {
        if (how == Away::kStopped)
            kafka().stop();
        else
            kafka().kill9();
    }
    ~KafkaOutage() { end(); }
    void end()
    {
        if (!ended_)
            kafka().start();
        ended_ = true;
    }

private:
    bool ended_ = false;
};

} // namespace

TEST(Outage, EventsEmittedWhileKafkaIsAbsentArriveWhenItStarts)
{
    kafka(); // so that its address is known
    KafkaOutage outage;
    OwnCluster server(kQuickRetries);
    TestDatabase database(server);
    Workload workload(server, database, {});
    workload.finish();
    EXPECT_TRUE(database.reaches_state("backing_off"));

    outage.end(); // the relay has the topic made
    Consumer consumer(kafka().bootstrap(), {database.topic()});
    Db db = database.connect();
    const Report report = check_delivery(db, consumer);
    EXPECT_TRUE(report.exact()) << report.summary();
    EXPECT_TRUE(database.reaches_state("running"));
}

namespace
{

// Not even a repeat: Apache Kafka recognises what it stored without having said so, by the
// producer's numbering.
void
expect_exact_delivery_over(Away how)
{
    OwnCluster server(kQuickRetries);
    TestDatabase database(server);
    kafka().create_topic(database.topic());
    Consumer consumer(kafka().bootstrap(), {database.topic()});
    Db db = database.connect();
    const auto set_aside = [&] { return db.value("select count(*) from outbox.deliveries"); };

    Workload workload(server, database, {});
    ASSERT_TRUE(wait_until(std::chrono::seconds(30), [&] { return workload.done() > 200; }));
    {
        KafkaOutage outage(how);
        EXPECT_TRUE(database.reaches_state("backing_off"));
        // When nothing gets through, no partition is at fault: nothing is set aside.
        EXPECT_FALSE(wait_until(Milliseconds(1500), [&] { return set_aside() != "0"; }));
    }
    workload.finish();
    const Report report = check_delivery(db, consumer);
    EXPECT_TRUE(exact_after_outage(report));
}

} // namespace

TEST(Outage, EventsGoOnOnceAndInOrderAfterKafkaRestartsInMidStream)
{
    expect_exact_delivery_over(Away::kStopped);
}

TEST(Outage, EventsGoOnOnceAndInOrderAfterKafkaIsKilledInMidStream)
{
    expect_exact_delivery_over(Away::kKilled);
}

// What Kafka has not acknowledged is not behind the position, however often the relay dies
// meanwhile.
TEST(Outage, NothingIsLostWhenTheRelayIsKilledWhileKafkaIsDown)
{
    OwnCluster server(kQuickRetries);
    server.expect_kill();
    TestDatabase database(server);
    kafka().create_topic(database.topic());
    KafkaOutage outage;
    database.connect().exec(
        "select outbox.emit($1, i::text, 'e', '{}') from generate_series(1, 1000) i",
        database.type());
    ASSERT_TRUE(database.reaches_state("backing_off"));
    database.kill_relay();
    ASSERT_TRUE(database.reaches_state("backing_off"));
    database.kill_relay();

    outage.end();
    Consumer consumer(kafka().bootstrap(), {database.topic()});
    Db db = database.connect();
    const Report report = check_delivery(db, consumer);
    EXPECT_TRUE(report.exact()) << report.summary();
}

// The whole server restarts after it, because PostgreSQL cannot trust the memory that a killed
// process shared. What repeats is what the position had not recorded: it is written every quarter
// of a second at most, and a crash can take back what was written in the last moments before it.
TEST(Outage, NothingIsLostAndOnlyTheLastSecondRepeatsWhenTheRelayIsKilledInMidStream)
{
    constexpr int kKills = 3;
    OwnCluster server(kQuickRetries);
    server.expect_kill();
    TestDatabase database(server);
    kafka().create_topic(database.topic());
    Consumer consumer(kafka().bootstrap(), {database.topic()});

    Workload::Options options;
    options.server_may_crash = true;
    options.transactions = 100000;
    Workload workload(server, database, options);
    std::vector<std::string> kills;
    for (int kill_number = 1; kill_number <= kKills; ++kill_number)
    {
        // Each time when it has been at work for some time.
        Db db = database.connect();
        const std::string start = db.value("select now()");
        const auto at_work = [&]
        {
            return db.value("select coalesce(max(updated_at) > $1::timestamptz + interval '1.5 s', "
                            "false) "
                            "from outbox.relay_position",
                            start) == "t";
        };
        ASSERT_TRUE(wait_until(std::chrono::seconds(30), at_work));
        kills.push_back(db.value("select clock_timestamp()"));
        database.kill_relay();
    }
    workload.stop();
    workload.finish();
    Db db = database.connect();
    const Report report = check_delivery(db, consumer);
    EXPECT_TRUE(report.complete_and_ordered()) << report.summary();
    size_t allowed = 0;
    for (const std::string &time : kills)
        allowed += std::stoul(
            db.value("select count(*) from outbox.events where created_at between "
                     "$1::timestamptz - interval '1 s' and $1::timestamptz + interval '50 ms'",
                     time));
    EXPECT_LE(report.duplicates, allowed) << report.summary();
    std::printf("%d kills: %s\n", kKills, report.summary().c_str());
}

TEST(Outage, BusinessTransactionsDoNotNoticeThatKafkaIsDown)
{
    OwnCluster server(kQuickRetries);
    TestDatabase database(server);
    Db db = database.connect();
    const auto thousand = [&]
    {
        const auto start = Clock::now();
        for (int i = 0; i < 1000; ++i)
            db.exec("select outbox.emit($1, 'k', 'e', '{}')", database.type());
        return since(start);
    };
    const Milliseconds with_kafka = thousand();
    KafkaOutage outage;
    ASSERT_TRUE(wait_until(std::chrono::seconds(30),
                           [&]
                           {
                               db.exec("select outbox.emit($1, 'k', 'e', '{}')", database.type());
                               return database.reaches_state("backing_off", Milliseconds(200));
                           }));
    const Milliseconds without = thousand();
    EXPECT_LT(without.count(), 3 * with_kafka.count() + 500);
}

TEST(Outage, FastShutdownIsPromptWithKafkaDownAndTheBacklogGoesOutAfterwards)
{
    OwnCluster server; // the default backoff: a long wait must be cut short as well
    TestDatabase database(server);
    kafka().create_topic(database.topic());
    KafkaOutage outage;
    database.connect().exec(
        "select outbox.emit($1, i::text, 'e', '{}') from generate_series(1, 1000) i",
        database.type());
    ASSERT_TRUE(database.reaches_state("backing_off", std::chrono::seconds(60)));
    database.connect().exec("checkpoint");
    EXPECT_LT(server.stop(Shutdown::kFast), kPrompt);

    outage.end();
    server.start();
    Consumer consumer(kafka().bootstrap(), {database.topic()});
    Db db = database.connect();
    const Report report = check_delivery(db, consumer);
    EXPECT_TRUE(report.exact()) << report.summary();
}

TEST(Outage, FastShutdownIsPromptInMidStream)
{
    OwnCluster server;
    TestDatabase database(server);
    kafka().create_topic(database.topic());
    database.connect().exec("checkpoint");
    database.connect().exec(
        "select outbox.emit($1, i::text, 'e', '{}') from generate_series(1, 100000) i",
        database.type());
    EXPECT_LT(server.stop(Shutdown::kFast), kPrompt);

    server.start();
    Consumer consumer(kafka().bootstrap(), {database.topic()});
    Db db = database.connect();
    const Report report = check_delivery(db, consumer);
    EXPECT_TRUE(report.complete_and_ordered()) << report.summary();
}

TEST(Outage, TheRelayEndsPromptlyWhenTerminatedAndComesBack)
{
    TestDatabase database(cluster());
    const pid_t pid = database.relay_pid();
    const auto start = Clock::now();
    ASSERT_EQ(kill(pid, SIGTERM), 0);
    ASSERT_TRUE(wait_until(std::chrono::seconds(20), [&] { return kill(pid, 0) != 0; }));
    EXPECT_LT(since(start), kPrompt);
    EXPECT_TRUE(wait_until(std::chrono::seconds(20), [&] { return database.relay_pid() != pid; }));
}

TEST(Outage, AReloadTellsTheRelayOfKafkaAndOfAnother)
{
    OwnCluster server(Settings{{"outbox.bootstrap_servers", ""}});
    TestDatabase database(server);
    Db db = database.connect();
    // Its age counts from when it was read first, and does not begin again with each look.
    db.exec("insert into outbox.events (aggregate_type, aggregate_id, event_type, created_at) "
            "values ($1, 'k', 'of the future', '9999-12-31')",
            database.type());
    const std::string id = db.value("select outbox.emit($1, 'k', 'e', '{}')", database.type());
    EXPECT_TRUE(database.reaches_state("not_configured"));
    EXPECT_EQ(db.value("select outbox.wait_published($1, '300 ms')", id), "f");
    EXPECT_TRUE(wait_until(
        std::chrono::seconds(20),
        [&]
        {
            return db.value(
                       "select coalesce(backlog_age > '2.5 s', false) from outbox.relay_status") ==
                   "t";
        }));

    const auto start = Clock::now();
    server.configure("outbox.bootstrap_servers", kafka().bootstrap());
    server.reload();
    EXPECT_TRUE(database.reaches_state("running"));
    EXPECT_LT(since(start), kPrompt);
    EXPECT_EQ(db.value("select outbox.wait_published($1, '20 s')", id), "t");
}
