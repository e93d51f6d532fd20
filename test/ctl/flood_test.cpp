// A server that never stops talking, and one that stops listening.
#include <atomic>
#include <csignal>

#include "fake_server.h"
#include "pty.h"

namespace outbox::test
{

namespace
{

const std::string kNotice = report("NOTICE", "00000", "and so on", 'N');
const std::string kRows = one_row({{"name", 25, "x"}});
const std::string kColumn = kRows.substr(0, kRows.find('D'));
const std::string kRow = kRows.substr(kRows.find('D'));
const std::string kDone = message('C', text("SELECT 1"));

// Says `begin` once it has let somebody in, or been asked if `asked`, and then `more` for ever.
std::function<void(const Conversation &)>
flood(bool asked, const std::string &begin, const std::string &more)
{
    std::string much;
    while (much.size() < 65536)
        much += more;
    return [=](const Conversation &client)
    {
        char type = 0;
        std::string ignored;
        bool listens = !client.startup().empty() && client.say(kLetIn);
        if (asked)
            listens = listens && client.say(kReady) && client.hear(type, ignored);
        listens = listens && client.say(begin);
        while (listens)
            listens = client.say(much);
    };
}

TEST(Flood, AServerThatNeverStopsTalkingHasItsMinute)
{
    const std::vector<std::pair<std::string, std::string>> floods = {
        {"", kNotice}, {kColumn, kRow}, {"", kColumn + kRow + kDone}};
    for (const auto &[begin, more] : floods)
    {
        const FakeServer server(flood(true, begin, more));
        const auto start = Clock::now();
        const Ran ran = ctl(with_fast_clock(server.environment()), {"status"});
        EXPECT_EQ(ran.status, 3) << ran.err;
        EXPECT_LT(since(start), std::chrono::seconds(20));
    }
}

TEST(Flood, NorDoesOneHoldUpTheConnectionForEver)
{
    const FakeServer server(flood(false, "", kNotice));
    const Ran ran = ctl(with_fast_clock(server.environment()), {"status"});
    EXPECT_EQ(ran.status, 3) << ran.err;
    EXPECT_NE(ran.err.find("no connection was made within 10 minutes"), std::string::npos)
        << ran.err.substr(0, 1000);
}

constexpr size_t kMuch = 12000000; // more than the buffers of any socket

// Reads nothing any more from the first large message on.
class DeafServer
{
public:
    Environment environment() const { return server_.environment(); }
    bool is_deaf() const { return deaf_; }

private:
    // For whatever is asked: the name of this role, whether the extension is there, an event.
    static std::string answer(const std::string &sql)
    {
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
        deaf_ = true;
        client.go_deaf();
    }

    std::atomic<bool> deaf_{false};
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
        Environment environment = with_fast_clock(server.environment());
        environment["PGCONNECT_TIMEOUT"] = "1000"; // 5 s
        const Ran ran = ctl(environment, words);
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
