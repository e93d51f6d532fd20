// A server that never stops talking, and one that stops listening.
#include <atomic>
#include <csignal>

#include "pty.h"
#include "support/fake_server.h"

namespace outbox::test
{

namespace
{

const std::string kNotice = report("NOTICE", "00000", "and so on", 'N');
const std::string kRows = one_row({{"name", 25, "x"}});
const std::string kColumn = kRows.substr(0, kRows.find('D'));
const std::string kRow = kRows.substr(kRows.find('D'));
const std::string kDone = message('C', text("SELECT 1"));

// Says `begin` once it has been asked something, and then `more` for ever.
std::function<void(const Conversation &)>
flood(const std::string &begin, const std::string &more)
{
    return [=](const Conversation &client)
    {
        char type = 0;
        std::string ignored;
        if (!client.startup().empty() && client.say(kLetIn + kReady) &&
            client.hear(type, ignored) && client.say(begin))
            client.flood([&](int) { return more; });
    };
}

// Lets nobody in, and says notices or parameters, each another one.
std::function<void(const Conversation &)>
welcome(bool parameters, int pause_ms)
{
    return [=](const Conversation &client)
    {
        if (!client.startup().empty() && client.say(kLetIn))
            client.flood(
                [=](int i)
                {
                    return parameters
                               ? message('S', text("p" + std::to_string(i)) +
                                                  text(std::string(pause_ms > 0 ? 1 : 20000, 'x')))
                               : kNotice;
                },
                pause_ms);
    };
}

TEST(Flood, AServerThatNeverStopsTalkingHasItsMinute)
{
    const std::vector<std::pair<std::string, std::string>> floods = {
        {"", kNotice}, {kColumn, kRow}, {"", kColumn + kRow + kDone}};
    for (const auto &[begin, more] : floods)
    {
        const FakeServer server(flood(begin, more));
        const auto start = Clock::now();
        Environment environment = with_fast_clock(server.environment());
        environment["PGCONNECT_TIMEOUT"] = "1000"; // 5 s
        const Ran ran = ctl(environment, {"status"});
        EXPECT_EQ(ran.status, 3) << ran.err;
        EXPECT_LT(since(start), std::chrono::seconds(20));
    }
}

TEST(Flood, AServerThatSendsWithoutEndInsteadOfLettingUsInIsLeftAtOnce)
{
    for (const bool parameters : {false, true})
    {
        const FakeServer server(welcome(parameters, 0));
        Environment environment = server.environment();
        environment["PGCONNECT_TIMEOUT"] = "25";
        const auto start = Clock::now();
        const Ran ran = ctl(environment, {"status"});
        EXPECT_LT(since(start), std::chrono::seconds(20));
        EXPECT_EQ(ran.status, 3) << ran.err;
        EXPECT_NE(ran.err.find("sends without end instead of letting us in"), std::string::npos)
            << ran.err.substr(0, 1000);
        EXPECT_LT(ran.err.size(), 10000U) << "of notices only the first";
    }
}

TEST(Flood, ASteadyTrickleGivesAServerNoMoreThanItsTime)
{
    for (const bool parameters : {false, true})
    {
        const FakeServer server(welcome(parameters, 20));
        Environment environment = server.environment();
        environment["PGCONNECT_TIMEOUT"] = "2";
        const Ran ran = ctl(environment, {"status"});
        EXPECT_EQ(ran.status, 3) << ran.err;
        EXPECT_NE(ran.err.find("did not let us in within 2 s"), std::string::npos) << ran.err;
    }
}

TEST(Flood, AWatchSurvivesIt)
{
    const FakeServer server(welcome(true, 0));
    Environment environment = server.environment();
    environment["PGHOST"] = "127.0.0.1,127.0.0.1";
    environment["PGPORT"] = std::to_string(server.port()) + "," + std::to_string(cluster().port());
    environment["PGUSER"] = "postgres";
    const TestDatabase database(cluster());
    environment["PGDATABASE"] = database.name();
    Pty terminal({outboxctl(), "status", "--watch", "--interval", "100ms"}, environment);
    EXPECT_TRUE(terminal.shows("q or Ctrl-C ends")) << terminal.output();
    terminal.type("\3");
    EXPECT_EQ(terminal.ends(std::chrono::seconds(5)), 0);
}

constexpr size_t kMuch = 12000000; // more than the buffers of any socket

// Reads nothing any more from the first large message on.
class DeafServer
{
public:
    Environment environment() const { return server_.environment(); }
    bool is_deaf() const { return deaf_; }
    // Is there from then on.
    const std::string &file() const { return file_; }

private:
    // For whatever is asked: the name of this role, that the extension is there, an event.
    static std::string answer(const std::string &sql)
    {
        if (asks_for_extension(sql))
            return extension_is_there();
        std::vector<Column> row = {{"name", 25, "u"}, {"open", 16, "t"}};
        const bool show = sql.find("event_status") != std::string::npos;
        for (const char *name :
             {"id", "status", "aggregate_type", "aggregate_id", "event_type", "partition_key",
              "schema_version", "created_at", "published_at", "attempts", "next_attempt_at",
              "last_error", "topic", "failed_at", "waiting_behind", "payload", "payload_bytes"})
            if (show)
                row.push_back({name, 25, "1"});
        if (show)
            row.push_back({"headers", 25, std::string(kMuch, 'x')});
        return one_row(row) + kDone;
    }
    void serve(const Conversation &client)
    {
        (void) client.startup();
        client.serve(answer, 100000);
        if (client.gone())
            return;
        deaf_ = true;
        write_file(file_, "");
        client.go_deaf();
    }

    std::atomic<bool> deaf_{false};
    const std::string file_ = run_dir() / unique_name("deaf");
    const FakeServer server_{[this](const Conversation &client) { serve(client); }};
};

class Deaf : public testing::Test
{
protected:
    Deaf() { write_file(file_, std::string(kMuch, 'x')); }

    const std::string file_ = run_dir() / unique_name("large");
    const Words emit_ = {"emit", "a", "b", "c", "--bytes", "-f", file_};
};

TEST_F(Deaf, AServerThatStopsReadingHasItsMinute)
{
    for (const Words &words : {emit_, Words{"failed", "show", "1"}})
    {
        const auto start = Clock::now();
        const DeafServer server;
        // Millions of bytes to that point may take a busy machine longer than a fast minute.
        const Ran ran = ctl(with_fast_clock(server.environment(), server.file()), words);
        EXPECT_EQ(ran.status, 3) << ran.err;
        EXPECT_NE(ran.err.find("within 60 s"), std::string::npos) << ran.err;
        EXPECT_TRUE(server.is_deaf());
        EXPECT_LT(since(start), std::chrono::seconds(25));
    }
}

TEST_F(Deaf, ASignalEndsWhoSendsToIt)
{
    for (const int number : {SIGINT, SIGTERM, SIGHUP})
    {
        const DeafServer server;
        Words words = {outboxctl()};
        words.insert(words.end(), emit_.begin(), emit_.end());
        Pty terminal(words, server.environment());
        EXPECT_TRUE(wait_until(std::chrono::seconds(20), [&] { return server.is_deaf(); }))
            << terminal.output();
        terminal.signal(number);
        EXPECT_EQ(terminal.ends(std::chrono::seconds(10)), 130) << number;
    }
}

} // namespace

} // namespace outbox::test
