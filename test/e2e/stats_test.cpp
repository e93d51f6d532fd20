// What outbox.stats says, beside what a consumer of Kafka has read.
#include <algorithm>
#include <map>

#include "real_kafka_test.h"
#include "small_topic.h"

using namespace outbox::test;

namespace
{

constexpr double kHistogramError = 0.0625;

std::int64_t
bytes_of(const Record &record)
{
    size_t bytes = record.key.value_or("").size() + record.value.value_or("").size();
    for (const auto &[name, value] : record.headers)
        bytes += name.size() + value.value_or("").size();
    return static_cast<std::int64_t>(bytes);
}

std::int64_t
number(Db &db, const std::string &expression, const std::string &view = "outbox.stats_total")
{
    return std::stoll(db.value("select coalesce(" + expression + ", -1)::bigint from " + view));
}

// The current events of a database, and a topic more than others have.
class Counted
{
public:
    explicit Counted(PgCluster &server) : database_(server), db_(database_.connect())
    {
        for (const std::string &topic : topics())
            kafka().create_topic(topic);
    }

    TestDatabase &database() { return database_; }
    Db &db() { return db_; }
    std::vector<std::string> topics() const { return {database_.topic(), database_.topic() + "2"}; }

    void emit(int count, const std::string &suffix = "")
    {
        db_.exec("select outbox.emit($1, (g % 7)::text, 'made', jsonb_build_object('n', g), "
                 "headers => '{\"trace\": \"äöü\"}') from generate_series(1, $2) g",
                 database_.type() + suffix, count);
    }

    bool drain() { return db_.value("select outbox.drain('30 s')") == "t"; }

private:
    TestDatabase database_;
    Db db_;
};

} // namespace

TEST(Stats, CountAsManyEventsAndBytesOfEachTopicAsKafkaHas)
{
    const auto start = Clock::now();
    Counted scene(cluster());
    Db &db = scene.db();
    scene.emit(500);
    scene.emit(40, "2");
    db.exec("select outbox.emit($1, 'k', 'gone', null)", scene.database().type()); // a tombstone
    ASSERT_TRUE(scene.drain());
    Consumer consumer(kafka().bootstrap(), scene.topics());
    ASSERT_TRUE(consumer.read_count(541, std::chrono::seconds(20)));
    std::map<std::string, std::pair<std::int64_t, std::int64_t>> read;
    for (const Record &record : consumer.records())
    {
        read[record.topic].first++;
        read[record.topic].second += bytes_of(record);
    }
    const Result stats = db.exec("select topic, published, bytes from outbox.stats");
    ASSERT_EQ(stats.rows(), 2);
    for (int row = 0; row < 2; ++row)
    {
        EXPECT_EQ(stats.text(row, 1), std::to_string(read[stats.text(row)].first));
        EXPECT_EQ(stats.text(row, 2), std::to_string(read[stats.text(row)].second));
    }
    EXPECT_EQ(db.value("select topics || ' ' || published || ' ' || refused || ' ' || failed || ' '"
                       " || retried from outbox.stats_total"),
              "2 541 0 0 0");

    // Batches hold the events, and latencies are no longer than the test.
    EXPECT_GE(number(db, "batches * batch_events_max"), 541);
    EXPECT_LE(number(db, "batches"), 541);
    const std::int64_t elapsed = since(start).count() + 1;
    EXPECT_LE(number(db, "created_to_acked_ms_max"), elapsed);
    EXPECT_LE(number(db, "sent_to_acked_ms_max"), elapsed);
    EXPECT_EQ(db.value("select created_to_acked_ms_p50 <= created_to_acked_ms_p95 "
                       "and created_to_acked_ms_p95 <= created_to_acked_ms_p99 "
                       "and created_to_acked_ms_p99 <= created_to_acked_ms_max "
                       "and created_to_acked_ms_sum <= created_to_acked_ms_max * published "
                       "and created_to_acked_ms_sum >= created_to_acked_ms_max "
                       "and sent_to_acked_ms_max > 0 "
                       "and last_published_at between stats_reset and clock_timestamp() "
                       "from outbox.stats_total"),
              "t");
    for (const std::string measure : {"created_to_acked", "sent_to_acked"})
    {
        const auto counts = db.column("select events from outbox.stats_histogram "
                                      "where measure = $1 order by le_seconds",
                                      measure);
        EXPECT_TRUE(std::is_sorted(counts.begin(), counts.end(),
                                   [](const auto &a, const auto &b)
                                   { return std::stoll(a) < std::stoll(b); }));
        EXPECT_EQ(counts.back(), "541");
    }
}

TEST(Stats, TellHowLongEventsTookFromTheirCreation)
{
    Counted scene(cluster());
    Db &db = scene.db();
    const auto start = Clock::now();
    db.exec("insert into outbox.events (aggregate_type, aggregate_id, event_type, created_at) "
            "select $1, 'k', 'made', clock_timestamp() - case when g <= 90 then interval '1 hour' "
            "else interval '3 hours' end from generate_series(1, 100) g",
            scene.database().type());
    ASSERT_TRUE(scene.drain());
    const double elapsed = static_cast<double>(since(start).count()) + 1;
    const auto near = [&](const std::string &column, double hours, double error)
    {
        const double ms = std::stod(db.value("select " + column + " from outbox.stats_total"));
        EXPECT_GE(ms, hours * 3.6e6 * (1 - error)) << column;
        EXPECT_LE(ms, (hours * 3.6e6 + elapsed) * (1 + error)) << column;
    };
    near("created_to_acked_ms_p50", 1, kHistogramError);
    near("created_to_acked_ms_p95", 3, kHistogramError);
    near("created_to_acked_ms_max", 3, 0);
    near("created_to_acked_ms_sum / 100", 1.2, 0);
    EXPECT_LE(std::stod(db.value("select sent_to_acked_ms_max from outbox.stats_total")), elapsed);
}

TEST(Stats, OutliveARelayAndEndWithAReset)
{
    Counted scene(cluster());
    Db &db = scene.db();
    scene.emit(100);
    ASSERT_TRUE(scene.drain());
    const std::string since_when = db.value("select stats_reset from outbox.stats_total");
    scene.database().restart_relay();
    scene.emit(10);
    scene.emit(5, "2");
    ASSERT_TRUE(scene.drain());
    EXPECT_EQ(db.column("select published from outbox.stats order by published"),
              (std::vector<std::string>{"5", "110"}));
    EXPECT_EQ(db.value("select stats_reset from outbox.stats_total"), since_when);

    db.exec("select outbox.stats_reset()");
    EXPECT_EQ(db.value("select count(*) from outbox.stats"), "0");
    EXPECT_EQ(db.value("select published || ' ' || (created_to_acked_ms_max is null) || ' ' || "
                       "(stats_reset > $1::timestamptz) from outbox.stats_total",
                       since_when),
              "0 true true");
    scene.emit(7, "2");
    ASSERT_TRUE(scene.drain());
    EXPECT_EQ(db.column("select topic || ' ' || published from outbox.stats"),
              (std::vector<std::string>{scene.topics()[1] + " 7"}));
    const std::string total = db.value("select events from outbox.stats_histogram "
                                       "where le_seconds = 'infinity' limit 1");
    EXPECT_EQ(total, "7");
}

// Seventy topics are quickly made in the mock cluster only; the broker makes no difference.
TEST(Stats, TopicsBeyondTheLastRowAreCountedTogether)
{
    if (kafka().kind() != "embedded")
        return;
    Counted scene(cluster());
    Db &db = scene.db();
    db.exec("select outbox.emit($1 || g, 'k', 'made', null) "
            "from generate_series(1, 70) g, generate_series(1, 3)",
            scene.database().type() + "_many");
    ASSERT_TRUE(scene.drain());
    EXPECT_EQ(db.value("select count(*) from outbox.stats where published = 3"), "64");
    EXPECT_EQ(db.value("select published from outbox.stats where topic = '(other topics)'"), "18");
    EXPECT_EQ(db.value("select topics || ' ' || published from outbox.stats_total"), "65 210");

    // After a reset there is room for others.
    db.exec("select outbox.stats_reset()");
    scene.emit(1);
    ASSERT_TRUE(scene.drain());
    ASSERT_TRUE(wait_until(std::chrono::seconds(20),
                           [&]
                           {
                               scene.emit(1, "2");
                               EXPECT_TRUE(scene.drain());
                               return number(db, "count(*)",
                                             "outbox.stats where topic = '" + scene.topics()[1] +
                                                 "'") == 1;
                           }));
}

REAL_KAFKA_TEST(Stats, CountRefusalsRetriesAndFailures)
{
    SmallTopic scene(cluster());
    const std::string large = scene.emit_too_large("k");
    const Ids others = scene.emit_several("other", 20);
    ASSERT_TRUE(scene.arrive(others)) << scene.describe();
    ASSERT_TRUE(scene.reaches_status(large, "FAILED")) << scene.describe();
    const auto counts = [&]
    {
        return scene.db().value("select topic || ' ' || published || ' ' || refused || ' ' || "
                                "failed from outbox.stats");
    };
    EXPECT_TRUE(
        wait_until(std::chrono::seconds(20), [&] { return counts() == scene.topic() + " 20 3 1"; }))
        << counts();
    // Two for the culprit; more for what was refused in one batch with it.
    EXPECT_GE(number(scene.db(), "retried"), 2);
    scene.raise_limit();
    scene.db().exec("select outbox.retry($1)", large);
    ASSERT_TRUE(scene.arrive({large})) << scene.describe();
    EXPECT_TRUE(
        wait_until(std::chrono::seconds(20), [&] { return counts() == scene.topic() + " 21 3 1"; }))
        << counts();
}

TEST(Stats, TheActivityOfTheRelayIsSeenInPgStatActivity)
{
    Counted scene(cluster());
    Db &db = scene.db();
    const auto shows = [&](const std::string &activity)
    {
        return wait_until(std::chrono::seconds(20),
                          [&]
                          {
                              return db.value("select concat(application_name, ': ', state, ', ', "
                                              "query) from pg_stat_activity where pid = $1",
                                              scene.database().relay_pid()) ==
                                     "outbox relay: " + activity;
                          });
    };
    scene.emit(1);
    EXPECT_TRUE(shows("idle, all committed events are published"));
    db.exec("select outbox.pause()");
    EXPECT_TRUE(shows("idle, paused, see outbox.pauses"));
    scene.emit(1);
    db.exec("select outbox.resume()");
    EXPECT_TRUE(shows("idle, all committed events are published"));
    // Not in this session: within a transaction pg_stat_activity stays as it was looked at first.
    Db locker = scene.database().connect();
    locker.exec("begin; lock table outbox.events_0 in access exclusive mode");
    EXPECT_TRUE(shows("active, waiting for a lock on a table of outbox"));
    locker.exec("commit");
    const bool named = std::stoi(db.value("show server_version_num")) >= 170000;
    EXPECT_TRUE(wait_until(std::chrono::seconds(20),
                           [&]
                           {
                               return db.value("select coalesce(wait_event, '') "
                                               "from pg_stat_activity where pid = $1",
                                               scene.database().relay_pid()) ==
                                      (named ? "OutboxRelayIdle" : "Extension");
                           }));
}

TEST(Stats, ALagAndAPauseAreToldOnceEach)
{
    Counted scene(cluster());
    Db &db = scene.db();
    PgCluster &server = cluster();
    const auto lines = [&](const std::string &text)
    {
        const std::string log = server.log_text();
        int count = 0;
        for (size_t at = log.find(text); at != std::string::npos; at = log.find(text, at + 1))
            count++;
        return count;
    };
    const std::string behind = "outbox relay is behind: the oldest unpublished event is from ";
    const std::string over = "outbox relay has caught up";
    const int behind_before = lines(behind);
    const int over_before = lines(over);
    const int pauses_before = lines("outbox relay is paused");
    db.exec("select outbox.pause()");
    ASSERT_TRUE(scene.database().reaches_state("paused"));
    db.exec("insert into outbox.events (aggregate_type, aggregate_id, event_type, created_at) "
            "values ($1, 'k', 'made', clock_timestamp() - interval '1 hour')",
            scene.database().type());
    ASSERT_TRUE(
        wait_until(std::chrono::seconds(20), [&] { return lines(behind) > behind_before; }));
    EXPECT_EQ(db.value("select oldest_event_at < now() - interval '59 min' "
                       "from outbox.relay_status"),
              "t");
    scene.emit(1); // another round
    db.exec("select outbox.resume()");
    ASSERT_TRUE(scene.drain());
    ASSERT_TRUE(wait_until(std::chrono::seconds(20), [&] { return lines(over) > over_before; }));
    EXPECT_EQ(lines(behind), behind_before + 1);
    EXPECT_EQ(lines(over), over_before + 1);
    EXPECT_EQ(lines("outbox relay is paused"), pauses_before + 1);

    // Events that are old when they come do not fill the log, however often they come.
    for (int i = 0; i < 3; ++i)
    {
        ASSERT_TRUE(scene.database().reaches_state("running"));
        db.exec("select outbox.pause()");
        ASSERT_TRUE(scene.database().reaches_state("paused"));
        db.exec("insert into outbox.events (aggregate_type, aggregate_id, event_type, created_at) "
                "values ($1, 'k', 'made', '2020-02-02')",
                scene.database().type());
        EXPECT_TRUE(wait_until(std::chrono::seconds(20),
                               [&]
                               {
                                   return db.value("select count(*) from outbox.relay_status where "
                                                   "state = 'paused' and oldest_event_at < now() - "
                                                   "interval '1 year'") == "1";
                               }));
        db.exec("select outbox.resume()");
        ASSERT_TRUE(scene.drain());
    }
    EXPECT_EQ(lines(behind), behind_before + 1);
    EXPECT_EQ(lines(over), over_before + 1);
}
