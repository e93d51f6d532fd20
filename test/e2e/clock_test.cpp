// A clock that is set while the server runs, and what such a clock has left behind.
#include <sys/stat.h>

#include "servers.h"

using namespace outbox::test;

namespace
{

bool
comes_true(Db &db, const std::string &what)
{
    return wait_until(std::chrono::seconds(40), [&] { return db.value(what) == "t"; });
}

} // namespace

// As after seconds with a clock ten years ahead: what was written then is as old as it looks when
// somebody looks at it first, and goes after the same time as all else.
TEST(Clock, TimesInTheFutureCountAsNow)
{
    OwnCluster server(Settings{{"outbox.retention", "6s"}, {"outbox.processed_retention", "3s"}});
    TestDatabase database(server);
    kafka().create_topic(database.topic());
    Db db = database.connect();
    db.exec("begin");
    db.exec("select outbox.emit($1, 'k', 'made', '{}')", database.type());
    db.exec("select outbox.mark_processed(gen_random_uuid(), 'consumer')");
    db.exec("insert into outbox.idempotency_keys (scope, key, request_hash, owner, started_at, "
            "expires_at) values ('s', 'k', '', gen_random_uuid(), now() + interval '10 years', "
            "now() + interval '10 years 2 seconds')");
    db.exec("update outbox.processed_events set processed_at = now() + interval '10 years'");
    db.exec("commit");
    ASSERT_EQ(db.value("select outbox.drain('30 s')"), "t");
    db.exec("begin");
    db.exec("update outbox.ring set began_at = began_at + interval '10 years', "
            "ended_at = ended_at + interval '10 years'");
    db.exec("update outbox.ticks set published_at = published_at + interval '10 years', "
            "written_by = pg_current_xact_id()");
    db.exec("update outbox.relay_position set updated_at = updated_at + interval '10 years', "
            "written_by = pg_current_xact_id()");
    db.exec("commit");

    EXPECT_TRUE(comes_true(db, "select sum(truncations) > 0 from outbox.ring"))
        << db.value("select string_agg(r::text, e'\\n') from outbox.ring r");
    EXPECT_TRUE(comes_true(db, "select not exists (select from outbox.processed_events)"));
    EXPECT_TRUE(comes_true(db, "select not exists (select from outbox.idempotency_keys)"));
    EXPECT_EQ(db.value("select state from outbox.relay_status"), "running");
}

// As after a clock that was an hour ahead is right again: its topic has no possible name, which the
// session did not know.
TEST(Clock, AnAttemptThatIsLaterThanAnyPauseIsMadeNow)
{
    OwnCluster server(Settings{{"outbox.backoff_max", "1s"}, {"outbox.max_attempts", "1000"}});
    TestDatabase database(server);
    Db db = database.connect();
    db.exec("set outbox.topic_template = 'anything'");
    db.exec("select outbox.emit('no topic', 'k', 'e', '{}')");
    ASSERT_TRUE(comes_true(db, "select exists (select from outbox.deliveries where attempts > 1)"));
    db.exec("begin");
    db.exec(
        "update outbox.deliveries set attempts = 1, next_attempt_at = now() + interval '1 hour'");
    db.exec("select outbox.notify_relay()");
    db.exec("commit");
    EXPECT_TRUE(comes_true(db, "select exists (select from outbox.deliveries where attempts > 2)"));
}

// Events are published and the position is saved at once, attempts are made and the ring turns,
// however the clock is set under a relay that runs; and a crash after that repeats nothing. Kafka
// refuses records whose time is more than an hour ahead of its own clock: they wait for the right
// one.
TEST(Clock, NothingWaitsForAClockThatIsSet)
{
    OwnCluster server(Settings{
        {"outbox.retention", "6s"}, {"outbox.backoff_max", "1s"}, {"outbox.max_attempts", "1000"}});
    server.stop();
    server.make_clock_settable();
    server.start();
    TestDatabase database(server);
    kafka().create_topic(database.topic());
    Db db = database.connect();
    db.exec("set outbox.topic_template = 'anything'");
    db.exec("select outbox.emit('no topic', 'k', 'e', '{}')");

    // Its partition cannot be emptied; the others can.
    ASSERT_TRUE(
        comes_true(db, "select exists (select from outbox.ring where is_current and slot > 0)"));

    using std::chrono::hours;
    const std::chrono::minutes soon(30);
    const hours years(24 * 365 * 10);
    int64_t events = 0;
    for (const std::chrono::seconds ahead : std::initializer_list<std::chrono::seconds>{
             hours(0), soon, hours(-1), hours(0), years, hours(0)})
    {
        SCOPED_TRACE("the clock is ahead by " + std::to_string(ahead.count()) + " s");
        const std::string attempts =
            db.value("select coalesce(max(attempts), 0) from outbox.deliveries");
        server.set_clock(ahead);
        db.exec("select outbox.emit($1, 'k' || i % 5, 'made', '{}') from generate_series(1, 100) i",
                database.type());
        events += 100;
        if (ahead < years)
        {
            ASSERT_TRUE(comes_true(
                db, "select not exists (select from outbox.event_status where status = 'NEW' "
                    "and event_type = 'made')"));
            EXPECT_EQ(db.value("select state from outbox.relay_status"), "running");
        }
        EXPECT_TRUE(
            comes_true(db, "select max(attempts) > " + attempts + " from outbox.deliveries"))
            << db.value("select string_agg(d::text, e'\\n') from outbox.deliveries d");
    }
    EXPECT_TRUE(
        comes_true(db, "select not exists (select from outbox.events where event_type = 'made')"));

    server.kill9();
    server.start();
    Db after = database.connect();
    after.exec("select outbox.emit($1, 'k', 'last', '{}')", database.type());
    Consumer consumer(kafka().bootstrap(), {database.topic()});
    EXPECT_TRUE(consumer.read_count(static_cast<size_t>(events) + 1, std::chrono::seconds(20)));
    consumer.read_for(std::chrono::milliseconds(500));
    EXPECT_EQ(consumer.records().size(), static_cast<size_t>(events) + 1);
}
