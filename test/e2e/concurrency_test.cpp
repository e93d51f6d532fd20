// Exactly what committed arrives, each event once and in order, whatever the transactions do
// meanwhile.
#include <algorithm>
#include <map>

#include "servers.h"
#include "workload.h"

using namespace outbox::test;

TEST(Concurrency, CommittedEventsArriveOnceAndInOrderBesideALongTransaction)
{
    TestDatabase database(cluster());
    kafka().create_topic(database.topic());
    Consumer consumer(kafka().bootstrap(), {database.topic()});

    Db lengthy = database.connect();
    lengthy.exec("begin");
    lengthy.exec("select outbox.emit($1, 'long', 'first', '1')", database.type());
    Workload workload(cluster(), database, {});
    workload.finish();
    lengthy.exec("select outbox.emit($1, 'long', 'last', '2')", database.type());

    // Everything else goes out while that transaction is open; its own events follow when it
    // commits.
    Db db = database.connect();
    Report report = check_delivery(db, consumer);
    EXPECT_TRUE(report.exact()) << report.summary();
    EXPECT_GT(report.events, 500U);
    const size_t before = report.events;

    lengthy.exec("commit");
    report = check_delivery(db, consumer);
    EXPECT_TRUE(report.exact()) << report.summary();
    EXPECT_EQ(report.events, before + 2);
}

namespace
{

// How a naive relay reads: everything above the highest sequence number seen so far.
class NaiveReader
{
public:
    explicit NaiveReader(const TestDatabase &database) : db_(database.connect()) {}

    void poll()
    {
        for (const std::string &seq :
             db_.column("select seq from outbox.events where seq > $1 order by seq", last_))
        {
            last_ = std::stoll(seq);
            ++seen_;
        }
    }
    size_t seen() const { return seen_; }

private:
    Db db_;
    long long last_ = 0;
    size_t seen_ = 0;
};

} // namespace

// The negative control is in the test: a reader of "seq > last" loses events here.
TEST(Concurrency, EventsWithLowSequenceNumbersThatCommitLastArriveWhereANaiveReaderLosesThem)
{
    constexpr int kRounds = 20;
    constexpr int kClients = 8;
    TestDatabase database(cluster());
    kafka().create_topic(database.topic());
    Consumer consumer(kafka().bootstrap(), {database.topic()});
    NaiveReader naive(database);
    std::vector<Db> clients;
    for (int i = 0; i < kClients; ++i)
        clients.push_back(database.connect());

    for (int round = 0; round < kRounds; ++round)
    {
        for (size_t i = 0; i < clients.size(); ++i)
        {
            clients[i].exec("begin");
            clients[i].exec("select outbox.emit($1, $2, 'emitted', '{}')", database.type(),
                            "client-" + std::to_string(i));
        }
        // Last in, first out; the relay and the naive reader look in between.
        for (auto client = clients.rbegin(); client != clients.rend(); ++client)
        {
            client->exec("commit");
            naive.poll();
        }
    }

    Db db = database.connect();
    const Report report = check_delivery(db, consumer);
    EXPECT_EQ(report.events, static_cast<size_t>(kRounds * kClients));
    EXPECT_TRUE(report.exact()) << report.summary();
    EXPECT_EQ(naive.seen(), static_cast<size_t>(kRounds))
        << "one of each round: the control must lose the others";
}

// The relay is woken by the commit. If it were not, an event would wait for the next look that the
// relay takes on its own, half a second on average.
TEST(Concurrency, ACommittedEventArrivesAtOnce)
{
    constexpr size_t kEvents = 41;
    TestDatabase database(cluster());
    kafka().create_topic(database.topic());
    Consumer consumer(kafka().bootstrap(), {database.topic()});
    Db db = database.connect();
    std::vector<Milliseconds> latencies;
    for (size_t i = 1; i <= kEvents; ++i)
    {
        db.exec("select outbox.emit($1, 'k', 'e', '{}')", database.type());
        const auto committed = Clock::now();
        ASSERT_TRUE(consumer.read_count(i, std::chrono::seconds(20)));
        latencies.push_back(since(committed));
    }
    std::sort(latencies.begin(), latencies.end());
    EXPECT_LT(latencies[kEvents / 2].count(), 100) << "milliseconds, the median";
}

// COMMIT PREPARED runs in another session than the one that emitted, which the relay must notice as
// well.
TEST(Concurrency, APreparedTransactionIsPublishedWhenItIsCommittedAndNotBefore)
{
    TestDatabase database(cluster());
    kafka().create_topic(database.topic());
    Consumer consumer(kafka().bootstrap(), {database.topic()});
    const std::string gid = "'" + database.name() + "'";

    Db db = database.connect();
    db.exec("begin");
    db.exec("select outbox.emit($1, 'k', 'prepared', '{}')", database.type());
    db.exec("prepare transaction " + gid);
    consumer.read_for(Milliseconds(500));
    EXPECT_TRUE(consumer.records().empty());

    Db other = database.connect();
    other.exec("commit prepared " + gid);
    EXPECT_TRUE(consumer.read_count(1, std::chrono::seconds(5)));
}
