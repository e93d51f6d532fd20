// status, lag, pause, resume
#include "ctl.h"
#include "pty.h"

#include <algorithm>
#include <csignal>
#include <set>
#include <sstream>

namespace outbox::test
{

namespace
{

class Status : public CtlTest
{
};

std::set<std::string>
members(const Json &json)
{
    std::set<std::string> names;
    for (const auto &[name, value] : json.items())
        names.insert(name);
    return names;
}

TEST_F(Status, JsonHasTheDocumentedMembers)
{
    emit("1");
    const Ran ran = ctl({"status", "--json"});
    EXPECT_EQ(ran.status, 0);
    EXPECT_EQ(ran.out.find('\n'), ran.out.size() - 1) << "one line where no terminal is";
    const Json json = ran.json();
    EXPECT_EQ(members(json), (std::set<std::string>{"time",
                                                    "database",
                                                    "state",
                                                    "pid",
                                                    "backlog_events",
                                                    "oldest_event_at",
                                                    "backlog_age_seconds",
                                                    "in_flight_events",
                                                    "in_flight_bytes",
                                                    "published_total",
                                                    "last_published_at",
                                                    "failed_events",
                                                    "retrying_events",
                                                    "waiting_events",
                                                    "oldest_waiting_at",
                                                    "waiting_age_seconds",
                                                    "consecutive_failures",
                                                    "next_attempt_at",
                                                    "last_error",
                                                    "last_error_at",
                                                    "config_error",
                                                    "bootstrap_servers",
                                                    "pause",
                                                    "subscriptions"}));
    EXPECT_EQ(json["subscriptions"], Json::array());
    EXPECT_EQ(json["state"], "running");
    EXPECT_EQ(json["published_total"], 1);
    EXPECT_EQ(json["backlog_events"], 0);
    EXPECT_EQ(json["bootstrap_servers"], kafka().bootstrap());
    EXPECT_TRUE(json["pause"].is_null());
    EXPECT_EQ(json["time"].get<std::string>().back(), 'Z');
}

TEST_F(Status, APersonSeesTheStateAndNoColoursInAPipe)
{
    emit("1");
    const Ran ran = ctl({"status"});
    EXPECT_EQ(ran.out.rfind("Relay      running", 0), 0U) << ran.out;
    EXPECT_NE(ran.out.find("Published  1 event,"), std::string::npos) << ran.out;
    EXPECT_EQ(ran.out.find('\x1b'), std::string::npos);
    EXPECT_NE(ctl({"status", "--color=always"}).out.find("\x1b["), std::string::npos);
}

TEST_F(Status, PauseAndResumeAreShown)
{
    EXPECT_EQ(ctl({"pause", "--reason", "moving Kafka", "--json"}).json(),
              (Json{{"paused", true}, {"changed", true}}));
    EXPECT_EQ(ctl({"pause", "--json"}).json()["changed"], false);
    EXPECT_TRUE(database_.reaches_state("paused"));
    const Json pause = ctl({"status", "--json"}).json()["pause"];
    EXPECT_EQ(pause["by"], "postgres");
    EXPECT_EQ(pause["reason"], "moving Kafka");
    const std::string text = ctl({"status"}).out;
    EXPECT_NE(text.find("moving Kafka"), std::string::npos) << text;
    EXPECT_NE(text.find("outboxctl resume"), std::string::npos) << text;
    db_.exec("update outbox.pauses set reason = repeat('x', 1000) || repeat('y', 1000000)");
    EXPECT_EQ(ctl({"status", "--json"}).json()["pause"]["reason"], std::string(1000, 'x'));

    db_.exec("select outbox.emit($1, '1', 'x', '{}')", database_.type());
    const Json lag = ctl({"lag", "--json", "--sample", "0"}).json();
    EXPECT_EQ(lag["backlog_events"], 1);
    EXPECT_TRUE(lag["seconds_to_catch_up"].is_null());

    EXPECT_EQ(ctl({"resume", "--json"}).json(), (Json{{"paused", false}, {"changed", true}}));
    EXPECT_EQ(ctl({"resume"}).out, "It was not paused.\n");
    EXPECT_TRUE(database_.reaches_state("running"));
}

TEST_F(Status, LagShowsRatesAndWhatIsHeldUp)
{
    emit_refused("1");
    const Json json = ctl({"lag", "--json", "--sample", "200ms"}).json();
    EXPECT_EQ(members(json),
              (std::set<std::string>{"time", "database", "state", "backlog_events",
                                     "oldest_event_at", "backlog_age_seconds", "in_flight_events",
                                     "in_flight_bytes", "published_per_second",
                                     "emitted_per_second", "seconds_to_catch_up", "topics"}));
    ASSERT_EQ(json["topics"].size(), 1U);
    EXPECT_EQ(json["topics"][0],
              (Json{{"topic", database_.topic()}, {"retrying", 0}, {"waiting", 0}, {"failed", 1}}));
    EXPECT_NE(ctl({"lag", "--sample", "0"}).out.find(database_.topic()), std::string::npos);
}

TEST_F(Status, WatchWithJsonIsOneObjectALineUntilASignal)
{
    ASSERT_TRUE(database_.reaches_state("running"));
    const std::string out = run_dir() / unique_name("watch");
    Command command({outboxctl(), "status", "--watch", "--interval", "50ms", "--json"});
    command.environment = connection(cluster(), database_.name());
    command.output = out;
    Process process(command);
    EXPECT_TRUE(wait_until(std::chrono::seconds(10),
                           [&]
                           {
                               const std::string text = read_file(out);
                               return std::count(text.begin(), text.end(), '\n') >= 3;
                           }));
    EXPECT_TRUE(process.stop(SIGTERM, std::chrono::seconds(5)));
    EXPECT_EQ(process.wait_for(Milliseconds(0)), 0);
    std::istringstream lines(read_file(out));
    for (std::string line; std::getline(lines, line);)
        EXPECT_EQ(Json::parse(line)["state"], "running");
}

class Watch : public CtlTest
{
protected:
    static bool stopped(const Pty &terminal)
    {
        const std::string file = "/proc/" + std::to_string(terminal.pid()) + "/stat";
        return wait_until(std::chrono::seconds(10),
                          [&] { return read_file(file).find(") T ") != std::string::npos; });
    }
    Environment environment() const { return connection(cluster(), database_.name()); }
};

TEST_F(Watch, CtrlCEndsItAtOnceAndTheTerminalIsAsBefore)
{
    emit("1");
    Pty terminal({outboxctl(), "status", "--watch", "--interval", "10m"}, environment());
    const termios before = terminal.settings();
    ASSERT_TRUE(terminal.shows("q or Ctrl-C ends")) << terminal.output();
    EXPECT_NE(terminal.output().find("\x1b[?1049h"), std::string::npos) << "another screen";
    EXPECT_NE(terminal.output().find("running"), std::string::npos);
    EXPECT_FALSE(same(before, terminal.settings())) << "keys are not echoed";
    const auto pressed = Clock::now();
    terminal.type("\3");
    EXPECT_EQ(terminal.ends(std::chrono::seconds(5)), 0);
    EXPECT_LT(since(pressed), std::chrono::seconds(1));
    EXPECT_TRUE(same(before, terminal.settings()));
    const std::string &output = terminal.output();
    EXPECT_NE(output.find("\x1b[?1049l"), std::string::npos) << "back on the first screen";
    EXPECT_GT(output.rfind("\x1b[?25h"), output.rfind("\x1b[?25l")) << "the cursor is back";
}

TEST_F(Watch, QAndSigtermEndItToo)
{
    for (const bool key : {true, false})
    {
        Pty terminal({outboxctl(), "status", "--watch", "--interval", "10m"}, environment());
        const termios before = terminal.settings();
        ASSERT_TRUE(terminal.shows("q or Ctrl-C ends")) << terminal.output();
        if (key)
            terminal.type("q");
        else
            terminal.signal(SIGTERM);
        EXPECT_EQ(terminal.ends(std::chrono::seconds(5)), 0);
        EXPECT_TRUE(same(before, terminal.settings()));
    }
}

TEST_F(Watch, ItFollowsWhatHappensAndTheTerminalsSize)
{
    Pty terminal({outboxctl(), "status", "--watch", "--interval", "100ms"}, environment(), 60, 30);
    ASSERT_TRUE(terminal.shows("nothing to publish")) << terminal.output();
    ASSERT_EQ(ctl({"pause"}).status, 0);
    EXPECT_TRUE(terminal.shows("paused")) << terminal.output();
    terminal.resize(100, 3);
    terminal.mark();
    // Three lines of a frame, and not the fourth.
    EXPECT_TRUE(terminal.shows("Relay"));
    terminal.mark();
    EXPECT_TRUE(terminal.shows("Relay"));
    EXPECT_EQ(terminal.output().find("Published", terminal.output().rfind("\x1b[H")),
              std::string::npos);
    terminal.type("\3");
    EXPECT_EQ(terminal.ends(std::chrono::seconds(5)), 0);
}

TEST_F(Watch, CtrlZGivesTheTerminalBackAndContinuingTakesItAgain)
{
    Pty terminal({outboxctl(), "status", "--watch", "--interval", "100ms"}, environment());
    const termios before = terminal.settings();
    ASSERT_TRUE(terminal.shows("q or Ctrl-C ends")) << terminal.output();
    terminal.mark();
    terminal.signal(SIGTSTP);
    EXPECT_TRUE(terminal.shows("\x1b[?1049l"));
    EXPECT_TRUE(
        wait_until(std::chrono::seconds(5), [&] { return same(before, terminal.settings()); }));
    terminal.mark();
    EXPECT_TRUE(stopped(terminal)); // a SIGCONT before it stops would be lost
    terminal.signal(SIGCONT);
    EXPECT_TRUE(terminal.shows("\x1b[?1049h"));
    EXPECT_TRUE(terminal.shows("q or Ctrl-C ends"));
    terminal.type("\3");
    EXPECT_EQ(terminal.ends(std::chrono::seconds(5)), 0);
}

TEST_F(Watch, CtrlZWhileTheServerIsAskedIsNotLost)
{
    Db other = database_.connect();
    Pty terminal({outboxctl(), "status", "--watch", "--interval", "50ms"}, environment());
    const termios before = terminal.settings();
    ASSERT_TRUE(terminal.shows("q or Ctrl-C ends")) << terminal.output();
    other.exec("begin");
    other.exec("lock table outbox.pauses in access exclusive mode"); // status looks at it
    ASSERT_TRUE(wait_until(std::chrono::seconds(10),
                           [&]
                           {
                               return db_.value("select count(*) from pg_locks where not granted "
                                                "and relation = 'outbox.pauses'::regclass") != "0";
                           }));
    terminal.mark();
    terminal.signal(SIGTSTP);
    other.exec("commit");
    EXPECT_TRUE(terminal.shows("\x1b[?1049l"));
    EXPECT_TRUE(
        wait_until(std::chrono::seconds(5), [&] { return same(before, terminal.settings()); }));
    EXPECT_TRUE(stopped(terminal)); // a SIGCONT before it stops would be lost
    terminal.signal(SIGCONT);
    EXPECT_TRUE(terminal.shows("\x1b[?1049h"));
    terminal.type("\3");
    EXPECT_EQ(terminal.ends(std::chrono::seconds(5)), 0);
}

TEST_F(Watch, ColoursFollowNoColor)
{
    Environment plain = environment();
    plain["NO_COLOR"] = "1";
    Environment coloured = environment();
    coloured["TERM"] = "xterm";
    coloured["NO_COLOR"] = "";
    for (const bool colours : {true, false})
    {
        Pty terminal({outboxctl(), "status"}, colours ? coloured : plain);
        EXPECT_EQ(terminal.ends(std::chrono::seconds(10)), 0);
        EXPECT_EQ(terminal.output().find("\x1b[") != std::string::npos, colours)
            << terminal.output();
    }
}

TEST(WatchOutage, ALostConnectionIsToldAndMadeAgain)
{
    OwnCluster server;
    const TestDatabase database(server);
    Pty terminal({outboxctl(), "status", "--watch", "--interval", "100ms"},
                 connection(server, database.name()));
    ASSERT_TRUE(terminal.shows("q or Ctrl-C ends")) << terminal.output();
    server.stop();
    EXPECT_TRUE(terminal.shows("no connection, trying again")) << terminal.output();
    EXPECT_TRUE(terminal.shows("Connection refused")) << terminal.output();
    server.start();
    terminal.mark();
    EXPECT_TRUE(terminal.shows("q or Ctrl-C ends")) << "connected again";
    terminal.type("\3");
    EXPECT_EQ(terminal.ends(std::chrono::seconds(5)), 0);
}

} // namespace

// What is not known is not nothing.
TEST(UnknownBacklog, IsSaidToBeUnknown)
{
    OwnCluster server(Settings{{"shared_preload_libraries", ""}});
    TestDatabase database(server);
    Db db = database.connect();
    db.exec("select outbox.emit('t', 'k', 'e', '{}') from generate_series(1, 10)");
    const Environment environment = connection(server, database.name());
    const Ran status = ctl(environment, {"status"});
    EXPECT_EQ(status.out.find("nothing to publish"), std::string::npos) << status.out;
    EXPECT_NE(status.out.find("not known"), std::string::npos) << status.out;
    const Ran lag = ctl(environment, {"lag", "--sample", "0"});
    EXPECT_EQ(lag.out.find("yes"), std::string::npos) << lag.out;
    const Json json = ctl(environment, {"lag", "--sample", "0", "--json"}).json();
    EXPECT_TRUE(json["backlog_events"].is_null()) << json.dump();
    EXPECT_TRUE(json["seconds_to_catch_up"].is_null()) << json.dump();
}

// A restore that waits for the rest of its dump is not "all is well".
TEST_F(Status, ALastErrorOfNowIsAFindingOfDoctorWhileTheRelayRuns)
{
    db_.exec("insert into outbox.events (id, aggregate_type, aggregate_id, event_type, seq, xid) "
             "values (gen_random_uuid(), 't', 'k', 'e', 900000, 900000)");
    // It may have met the locks of create extension first, which end just behind the commit.
    ASSERT_TRUE(wait_until(std::chrono::seconds(20),
                           [&]
                           {
                               return db_.value(
                                          "select coalesce(last_error, '') like '%not complete%' "
                                          "from outbox.relay_status") == "t";
                           }));
    const Ran ran = ctl({"doctor", "--json"});
    EXPECT_NE(ran.out.find("not complete"), std::string::npos) << ran.out;
}

TEST_F(Status, AMonitorSeesWhatIsHeldUp)
{
    const std::string role = new_role();
    db_.exec("select outbox.grant_monitor('" + role + "')");
    emit_refused("1");
    const Ran ran = ctl_as(role, {"lag", "--sample", "0", "--json"});
    EXPECT_EQ(ran.status, 0) << ran.err;
    ASSERT_TRUE(ran.json()["topics"].is_array()) << ran.out;
    EXPECT_EQ(ran.json()["topics"][0]["failed"], 1) << ran.out;
}

// Settings of a role may change whose rights count, and how transactions begin.
TEST_F(Status, TheRoleThatCountsIsTheCurrentOne)
{
    const std::string weak = new_role();
    const std::string login = new_role();
    db_.exec("grant " + weak + " to " + login);
    db_.exec("alter role " + login + " superuser");
    db_.exec("alter role " + login + " set role = " + weak);
    const Ran ran = ctl_as(login, {"doctor", "--json"});
    EXPECT_EQ(ran.out.find("may do everything"), std::string::npos) << ran.out;
    EXPECT_NE(ran.out.find(weak), std::string::npos) << ran.out;
}

TEST_F(Status, EmitWaitsWhateverTheRolesIsolationIs)
{
    const std::string role = new_role();
    db_.exec("select outbox.grant_emitter('" + role + "')");
    db_.exec("grant execute on function outbox.wait_published(uuid, interval) to " + role);
    db_.exec("alter role " + role + " set default_transaction_isolation = 'serializable'");
    const Ran ran = ctl_as(role, {"emit", database_.type(), "1", "e", "{}", "--wait", "20"});
    EXPECT_EQ(ran.status, 0) << ran.err;
}

} // namespace outbox::test
