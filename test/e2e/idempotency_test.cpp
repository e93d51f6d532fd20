// What keeps effects from happening twice: it stays as long as it must, over dumps too, and then
// goes without being in anybody's way.
#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "servers.h"
#include "workload.h"

using namespace outbox::test;

namespace
{

constexpr auto kLimit = std::chrono::seconds(30);

// Enough for several steps of the relay.
constexpr int kOld = 5000;
constexpr int kRecent = 500;

// Processed events and keys, old ones and recent ones in the same blocks.
void
add_old_and_recent(Db &db)
{
    db.exec(
        "insert into outbox.processed_events "
        "select 'billing', gen_random_uuid(), "
        "       now() - case when n % $1::int = 0 then interval '1 h' else interval '8 days' end "
        "from generate_series(1, $2::int) n",
        (kOld + kRecent) / kRecent, kOld + kRecent);
    db.exec("insert into outbox.idempotency_keys "
            "(scope, key, request_hash, owner, started_at, expires_at) "
            "select 'shop', n::text, sha256('x'), gen_random_uuid(), now() - interval '2 h', "
            "       now() + case when n % $1::int = 0 then interval '1 h' else interval '-1 s' end "
            "from generate_series(1, $2::int) n",
            (kOld + kRecent) / kRecent, kOld + kRecent);
}

std::string
count(Db &db, const std::string &table, const std::string &where)
{
    return db.value("select count(*) from outbox." + table + " where " + where);
}

bool
becomes(Db &db, const std::string &query, const std::string &expected)
{
    return wait_until(kLimit, [&] { return db.value(query) == expected; });
}

const char *const kOldEvents = "select count(*) from outbox.processed_events "
                               "where processed_at < now() - interval '7 days'";
const char *const kOldKeys =
    "select count(*) from outbox.idempotency_keys where expires_at < now()";

void
expect_only_old_ones_go(const Settings &settings)
{
    OwnCluster server(settings);
    TestDatabase database(server);
    Db db = database.connect();
    add_old_and_recent(db);
    EXPECT_TRUE(becomes(db, kOldEvents, "0"));
    EXPECT_TRUE(becomes(db, kOldKeys, "0"));
    const std::string recent = std::to_string(kRecent);
    const std::string old = std::to_string(kOld);
    EXPECT_EQ(count(db, "processed_events", "true"), recent);
    EXPECT_EQ(count(db, "idempotency_keys", "true"), recent);
    EXPECT_EQ(db.value("select removed_total from outbox.expiry "
                       "where table_name = 'processed_events' and last_removed_at is not null"),
              old);
    EXPECT_EQ(db.value("select removed_total from outbox.expiry "
                       "where table_name = 'idempotency_keys' and last_removed_at is not null"),
              old);
    EXPECT_FALSE(server.log_contains("processed_retention is shorter"));
}

} // namespace

TEST(Expiry, ExpiredEventsAndKeysGoAndOthersStay)
{
    expect_only_old_ones_go({});
}

TEST(Expiry, ExpiredEventsAndKeysGoWhileKafkaIsAwayAndWhileThereIsNone)
{
    // Nobody listens on port 1.
    expect_only_old_ones_go({{"outbox.bootstrap_servers", "127.0.0.1:1"}});
    expect_only_old_ones_go({{"outbox.bootstrap_servers", ""}});
}

TEST(Expiry, AnEventThatComesAgainAfterTheRetentionActsAgainAndTheLogWarnsOfThat)
{
    OwnCluster server(Settings{{"outbox.processed_retention", "1s"}});
    TestDatabase database(server);
    Db db = database.connect();
    const std::string mark =
        "select outbox.mark_processed('00000000-0000-4000-8000-000000000001', 'billing')";
    EXPECT_EQ(db.value(mark), "t");
    EXPECT_EQ(db.value(mark), "f");
    EXPECT_TRUE(becomes(db, "select count(*) from outbox.processed_events", "0"));
    EXPECT_EQ(db.value(mark), "t");
    EXPECT_TRUE(server.log_contains("outbox.processed_retention is shorter than a day"));
}

TEST(Expiry, WithARetentionOfZeroProcessedEventsStayForEver)
{
    OwnCluster server(Settings{{"outbox.processed_retention", "0"}});
    TestDatabase database(server);
    Db db = database.connect();
    add_old_and_recent(db);
    EXPECT_TRUE(becomes(db, kOldKeys, "0")); // the relay has come by
    EXPECT_EQ(count(db, "processed_events", "true"), std::to_string(kOld + kRecent));
    // It is taken up without a restart.
    server.configure("outbox.processed_retention", "7d");
    server.reload();
    EXPECT_TRUE(becomes(db, kOldEvents, "0"));
}

TEST(Expiry, RowsAndTablesThatSomebodyHoldsAreLeftAndTheRelayGoesOn)
{
    OwnCluster server;
    TestDatabase database(server);
    kafka().create_topic(database.topic());
    Db db = database.connect();
    Db holder = database.connect();
    holder.exec("begin");
    holder.exec("lock table outbox.processed_events in access exclusive mode");
    holder.exec("insert into outbox.processed_events values "
                "('billing', gen_random_uuid(), now() - interval '8 days')");
    const std::string insert =
        "insert into outbox.idempotency_keys "
        "(scope, key, request_hash, owner, started_at, expires_at) "
        "values ('shop', $1, sha256('x'), gen_random_uuid(), now(), now() + $2::interval)";
    db.exec(insert, "held", "1 s");
    holder.exec("select from outbox.idempotency_keys where key = 'held' for update");
    EXPECT_TRUE(becomes(db, kOldKeys, "1"));
    // Gone as soon as the relay has passed both.
    db.exec(insert, "free", "-1 s");
    EXPECT_TRUE(becomes(db, "select string_agg(key, ',') from outbox.idempotency_keys", "held"));

    const std::string id = db.value("select outbox.emit($1, 'key', 'e', '{}')", database.type());
    EXPECT_EQ(db.value("select outbox.wait_published($1, '30 s')", id), "t");
    EXPECT_EQ(count(db, "idempotency_keys", "true"), "1");
    const std::string relay = std::to_string(database.relay_pid());

    holder.exec("commit");
    EXPECT_TRUE(becomes(db, "select count(*) from outbox.idempotency_keys", "0"));
    EXPECT_TRUE(becomes(db, kOldEvents, "0"));
    EXPECT_EQ(relay, std::to_string(database.relay_pid()));
}

TEST(Idempotency, EventsOffsetsAndKeysAreWhatTheyWereAfterADumpAndARestore)
{
    if (!PgCluster::can_dump())
        GTEST_SKIP() << kCannotDump;
    OwnCluster server;
    TestDatabase database(server);
    Db db = database.connect();
    const std::string hash = "outbox.request_hash('POST', '/orders', 'x')";
    const std::string begin = "select outcome from outbox.idempotency_begin('shop', $1, " + hash +
                              ", mode => 'two_phase')";
    db.exec("select outbox.mark_processed('00000000-0000-4000-8000-000000000001', 'billing')");
    db.exec("select outbox.record_offset('billing', 'orders', 3, 42)");
    const std::string owner =
        db.value("select owner from outbox.idempotency_begin('shop', 'done', " + hash + ")");
    db.exec("select outbox.idempotency_complete('shop', 'done', $1, 201, 'made', 'text/plain', "
            "'{\"Location\": \"/orders/7\"}')",
            owner);
    EXPECT_EQ(db.value(begin, "at work"), "started");

    for (const bool plain : {true, false})
    {
        const std::string file = run_dir() / unique_name("dump.");
        run_or_throw(Command({PgCluster::dump_program("pg_dump"),
                              plain ? "--format=plain" : "--format=custom", "--file=" + file,
                              "--dbname=" + server.conninfo(database.name())}));
        OwnCluster fresh;
        Db(fresh, "postgres").exec("create database restored");
        const std::string into = "--dbname=" + fresh.conninfo("restored");
        run_or_throw(plain ? Command({PgCluster::dump_program("psql"), "--no-psqlrc", "--quiet",
                                      "--set=ON_ERROR_STOP=1", "--file=" + file, into})
                           : Command({PgCluster::dump_program("pg_restore"), "--exit-on-error",
                                      into, file}));
        Db restored(fresh, "restored");
        EXPECT_EQ(restored.value("select outbox.mark_processed("
                                 "'00000000-0000-4000-8000-000000000001', 'billing')"),
                  "f");
        EXPECT_EQ(restored.value("select next_offset from outbox.stored_offsets('billing')"), "42");
        EXPECT_EQ(restored.value("select outcome || status || convert_from(response, 'UTF8') || "
                                 "content_type || headers from outbox.idempotency_begin("
                                 "'shop', 'done', " +
                                 hash + ")"),
                  "replay201madetext/plain{\"Location\": \"/orders/7\"}");
        EXPECT_EQ(restored.value(begin, "at work"), "in_progress");
        EXPECT_EQ(restored.value("select count(*) from outbox.expiry"), "2");
    }
}

namespace
{

// The events that a consumer was told are new, of transactions that committed.
class Told
{
public:
    void add(const std::vector<std::string> &ids)
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        for (const std::string &id : ids)
            times_[id]++;
    }
    size_t events() const { return times_.size(); }
    int most() const
    {
        int most = 0;
        for (const auto &[id, times] : times_)
            most = std::max(most, times);
        return most;
    }

private:
    std::mutex mutex_;
    std::map<std::string, int> times_;
};

constexpr int kPool = 400;
constexpr int kTransactions = 150;

std::string
event_id(int n)
{
    std::string id = "00000000-0000-4000-8000-000000000000";
    const std::string digits = std::to_string(n);
    return id.replace(id.size() - digits.size(), digits.size(), digits);
}

// Marks random events, often the same as others do, one or many; one transaction in five rolls
// back.
void
consume(const TestDatabase &database, const std::string &level, unsigned seed, Told &told,
        std::atomic<int> &repeated)
{
    std::mt19937 random(seed);
    const auto any = [&](int below)
    { return static_cast<int>(random() % static_cast<unsigned>(below)); };
    Db db = database.connect();
    db.exec("set default_transaction_isolation = '" + level + "'");
    for (int n = 0; n < kTransactions; ++n)
    {
        std::string ids = event_id(any(kPool));
        const bool many = any(3) != 0;
        for (int more = many ? any(200) : 0; more > 0; --more)
            ids += "," + event_id(any(kPool));
        try
        {
            db.exec("begin");
            const Result marked =
                many ? db.exec("select outbox.mark_processed_many($1, 'billing')", "{" + ids + "}")
                     : db.exec("select $1::uuid where outbox.mark_processed($1, 'billing')", ids);
            const bool commits = any(5) != 0;
            db.exec(commits ? "commit" : "rollback");
            std::vector<std::string> fresh;
            for (int row = 0; commits && row < marked.rows(); ++row)
                fresh.push_back(marked.text(row));
            told.add(fresh);
        }
        catch (const SqlError &error)
        {
            // Deadlocks are not among what may happen.
            ASSERT_EQ(error.sqlstate(), "40001") << error.what();
            db.exec("rollback");
            ++repeated;
        }
    }
}

void
expect_each_event_told_once(const std::string &level)
{
    TestDatabase database(cluster());
    Db db = database.connect();
    const unsigned seed = choose_seed();
    SCOPED_TRACE(level + ", seed " + std::to_string(seed));
    for (int round = 0; round < 3; ++round)
    {
        db.exec("truncate outbox.processed_events");
        Told told;
        std::atomic<int> repeated{0};
        std::vector<std::thread> consumers;
        for (unsigned i = 0; i < 6; ++i)
            consumers.emplace_back(
                [&, i] {
                    consume(database, level, seed + static_cast<unsigned>(round) * 100 + i, told,
                            repeated);
                });
        for (std::thread &consumer : consumers)
            consumer.join();
        EXPECT_EQ(told.most(), 1);
        EXPECT_EQ(std::to_string(told.events()),
                  db.value("select count(distinct event_id) from outbox.processed_events"));
        EXPECT_EQ(std::to_string(told.events()),
                  db.value("select count(*) from outbox.processed_events"));
        EXPECT_TRUE(level != "read committed" || repeated == 0) << repeated;
    }
}

// Goes through the events in their order, side by side with others who do the same.
void
follow(const TestDatabase &database, unsigned seed, Told &told)
{
    constexpr int kSteps = 1500;
    std::mt19937 random(seed);
    Db db = database.connect();
    for (int n = 0; n < kSteps; ++n)
    {
        const std::string ids = event_id(n) + "," + event_id(n + 1) + "," + event_id(n + 2);
        db.exec("begin");
        const std::vector<std::string> fresh =
            db.column("select outbox.mark_processed_many($1, 'billing')", "{" + ids + "}");
        const bool commits = random() % 2 != 0;
        db.exec(commits ? "commit" : "rollback");
        if (commits)
            told.add(fresh);
    }
}

} // namespace

// Several lose the same event to another at once; they wait for that one, not for each other.
TEST(Idempotency, ConsumersWhoWantTheSameEventsAtTheSameTimeDoNotDeadlock)
{
    TestDatabase database(cluster());
    const unsigned seed = choose_seed();
    Told told;
    std::vector<std::thread> consumers;
    for (unsigned i = 0; i < 6; ++i)
        consumers.emplace_back([&, i] { EXPECT_NO_THROW(follow(database, seed + i, told)); });
    for (std::thread &consumer : consumers)
        consumer.join();
    EXPECT_EQ(told.most(), 1);
}

TEST(Idempotency, ConcurrentConsumersAreToldOfEachEventOnceAndNeverDeadlock)
{
    expect_each_event_told_once("read committed");
    expect_each_event_told_once("repeatable read");
    expect_each_event_told_once("serializable");
}
