// Commands that end before all is done: by a signal, or as the connection is lost. What they did
// until then stays, and has to be said. And what they leave behind in a connection: nothing.
#include <csignal>
#include <future>

#include <libpq-fe.h>

#include "ctl.h"
#include "pty.h"

#include "support/pooler.h"

namespace outbox::test
{

namespace
{

class Ended : public CtlTest
{
protected:
    // Events that have failed; the relay is paused.
    Words failed_events(int count)
    {
        db_.exec("select outbox.pause('for the test')");
        db_.exec("select outbox.emit($1, 'k', 'e', '{}') from generate_series(1, $2::int)",
                 database_.type(), count);
        db_.exec(
            "insert into outbox.deliveries (seq, xid, slot, event_id, lane, topic, partition_key, "
            "state, blocking, attempts, failed_at) select e.seq, e.xid, e.slot, e.id, e.seq, 't', "
            "e.aggregate_id, 'FAILED', false, 0, now() from outbox.events e");
        return db_.column("select event_id from outbox.deliveries order by seq");
    }

    // Waits until outboxctl waits for a lock that somebody else has.
    bool is_held_up() const
    {
        Db db = database_.connect();
        return wait_until(std::chrono::seconds(20),
                          [&]
                          {
                              return db.value("select count(*) from pg_stat_activity where "
                                              "application_name = 'outboxctl' and "
                                              "datname = current_database() and "
                                              "wait_event_type = 'Lock'") == "1";
                          });
    }

    std::string discarded() const
    {
        Db db = database_.connect();
        return db.value("select count(*) from outbox.deliveries where state = 'DISCARDED'");
    }

    void lock(Db &db, const std::string &id) const
    {
        db.exec("begin");
        db.exec("select from outbox.deliveries where event_id = $1::text::uuid for update", id);
    }

    void end_connections() const
    {
        Db db = database_.connect();
        db.exec("select pg_terminate_backend(pid) from pg_stat_activity where "
                "application_name = 'outboxctl' and datname = current_database()");
    }
};

TEST_F(Ended, ASignalBetweenTwoEventsDoesNotHideWhichOnesAreSettled)
{
    const Words ids = failed_events(6);
    Db other = database_.connect();
    for (const bool json : {false, true})
        for (const int number : {SIGINT, SIGTERM})
        {
            SCOPED_TRACE(std::string(json ? "JSON " : "") + std::to_string(number));
            const std::size_t first = std::stoul(discarded());
            if (first + 1 >= ids.size())
                break;
            lock(other, ids[first + 1]);
            Words words = {outboxctl(), "failed",   "discard",     "-r",
                           "test",      ids[first], ids[first + 1]};
            if (json)
                words.emplace_back("--json");
            Pty terminal(words, connection(cluster(), database_.name()), 200);
            EXPECT_TRUE(is_held_up());
            terminal.signal(number);
            EXPECT_EQ(terminal.ends(std::chrono::seconds(10)), 130);
            EXPECT_TRUE(terminal.shows(json ? "\"changed\"" : ids[first] + "  is discarded"))
                << terminal.output();
            EXPECT_TRUE(terminal.shows("1 event settled.")) << terminal.output();
            other.exec("rollback");
            EXPECT_EQ(discarded(), std::to_string(first + 1));
        }
}

TEST_F(Ended, ALostConnectionDoesNotHideWhichOnesAreSettled)
{
    const Words ids = failed_events(3);
    Db other = database_.connect();
    lock(other, ids[2]);
    std::future<Ran> running = std::async(
        std::launch::async,
        [&] {
            return ctl({"failed", "discard", "-r", "test", ids[0], ids[1], ids[2], "--json"});
        });
    EXPECT_TRUE(is_held_up());
    end_connections();
    const Ran ran = running.get();
    EXPECT_EQ(ran.status, 3);
    const Json events = ran.json()["events"];
    ASSERT_EQ(events.size(), 2U);
    EXPECT_EQ(events[1]["id"], ids[1]);
    EXPECT_EQ(ran.error_json()["error"]["detail"], "2 events settled.");
    EXPECT_EQ(discarded(), "2");
}

TEST_F(Ended, AnEventThatIsWaitedForIsNamedWhenTheWaitIsInterrupted)
{
    db_.exec("select outbox.pause('for the test')");
    Pty terminal({outboxctl(), "emit", database_.type(), "1", "x", "{}", "--wait", "60", "--json"},
                 connection(cluster(), database_.name()), 200);
    std::string id;
    ASSERT_TRUE(wait_until(std::chrono::seconds(20),
                           [&]
                           {
                               id = db_.value(
                                   "select coalesce(max(id::text), '') from outbox.events");
                               return !id.empty();
                           }));
    // It has heard of the commit when it waits for what comes after it.
    ASSERT_TRUE(wait_until(std::chrono::seconds(20),
                           [&]
                           {
                               return db_.value("select exists (select from pg_stat_activity "
                                                "where datname = current_database() and pid <> "
                                                "pg_backend_pid() and state = 'active' "
                                                "and query like '%wait_published%')") == "t";
                           }));
    terminal.signal(SIGINT);
    EXPECT_EQ(terminal.ends(std::chrono::seconds(10)), 130);
    EXPECT_TRUE(terminal.shows("\"id\": \"" + id + "\"")) << terminal.output();
    EXPECT_TRUE(terminal.shows("The event " + id + " is emitted.")) << terminal.output();
}

TEST_F(Ended, AReplayIsNamedWhenTheConnectionIsLost)
{
    emit("1");
    db_.exec("select outbox.pause('for the test')");
    std::future<Ran> running = std::async(std::launch::async,
                                          [&] {
                                              return ctl({"replay", "--yes", "--json"});
                                          });
    const auto asked_for = [&]
    { return db_.column("select replay_id from outbox.replays where state = 'QUEUED'"); };
    ASSERT_TRUE(wait_until(std::chrono::seconds(20), [&] { return asked_for().size() == 1; }));
    end_connections();
    const Ran ran = running.get();
    EXPECT_EQ(ran.status, 3);
    EXPECT_EQ(ran.error_json()["error"]["detail"],
              "The replay " + asked_for()[0] + " is asked for.");
}

TEST_F(Ended, ACommitThatNobodyAnswersLeavesTheEventInDoubt)
{
    db_.exec("set synchronous_commit = local");
    db_.exec("alter system set synchronous_standby_names = 'nobody'");
    db_.exec("select pg_reload_conf()");
    std::future<Ran> running =
        std::async(std::launch::async,
                   [&] {
                       return ctl({"emit", database_.type(), "1", "x", "{}", "--json"});
                   });
    EXPECT_TRUE(wait_until(std::chrono::seconds(20),
                           [&]
                           {
                               return db_.value("select count(*) from pg_stat_activity where "
                                                "application_name = 'outboxctl' and "
                                                "wait_event = 'SyncRep'") == "1";
                           }));
    end_connections();
    const Ran ran = running.get();
    db_.exec("alter system reset synchronous_standby_names");
    db_.exec("select pg_reload_conf()");
    EXPECT_EQ(ran.status, 3);
    EXPECT_EQ(ran.error_json()["error"]["detail"], "It is not known whether the event is emitted.");
}

TEST_F(Ended, SigtermEndsWithTheDocumentedExitCodeWhileItAsks)
{
    failed_events(1);
    for (const int number : {SIGTERM, SIGHUP, SIGINT})
    {
        Pty terminal({outboxctl(), "failed", "retry", "--all"},
                     connection(cluster(), database_.name()));
        ASSERT_TRUE(terminal.shows("[y/N]")) << terminal.output();
        terminal.signal(number);
        EXPECT_EQ(terminal.ends(std::chrono::seconds(10)), 130);
    }
}

// What libpq answers behind the pooler, on its only connection.
std::string
answer(const std::string &conninfo, const char *query)
{
    const std::unique_ptr<PGconn, decltype(&PQfinish)> connection(PQconnectdb(conninfo.c_str()),
                                                                  &PQfinish);
    const std::unique_ptr<PGresult, decltype(&PQclear)> result(PQexec(connection.get(), query),
                                                               &PQclear);
    return PQntuples(result.get()) == 1 ? PQgetvalue(result.get(), 0, 0)
                                        : PQerrorMessage(connection.get());
}

TEST_F(Ended, NothingIsLeftInTheConnectionThatAPoolerGivesToSomebodyElse)
{
    constexpr const char *kSettings =
        "select string_agg(name || ' = ' || setting, ', ' order by name) from pg_settings "
        "where lower(name) in ('search_path', 'bytea_output', 'extra_float_digits', "
        "'default_transaction_isolation', 'client_min_messages', 'timezone', 'datestyle')";
    db_.exec("alter database " + database_.name() +
             " set default_transaction_isolation = 'serializable'");
    db_.exec("alter database " + database_.name() + " set search_path = app, public");
    const std::string id = emit("1");
    const Pooler pooler(cluster(), 1);
    const std::string conninfo = pooler.conninfo(database_.name());
    std::string before;
    ASSERT_TRUE(wait_until(std::chrono::seconds(10),
                           [&]
                           {
                               before = answer(conninfo, kSettings);
                               return before.find("search_path = app, public") != std::string::npos;
                           }))
        << before;
    for (const Words &words : std::vector<Words>{{"status"},
                                                 {"doctor"},
                                                 {"failed", "show", id},
                                                 {"failed", "show", "nonsense"},
                                                 {"replay", "--dry-run"},
                                                 {"emit", database_.type(), "2", "x", "{}"}})
    {
        Words all = {"-d", conninfo};
        all.insert(all.end(), words.begin(), words.end());
        const Ran ran = test::ctl({}, all);
        EXPECT_EQ(ran.status == 3, false) << ran.err;
        EXPECT_EQ(answer(conninfo, kSettings), before) << words[0];
    }
}

} // namespace

} // namespace outbox::test
