// The sink on a server that says anything.
#include "support/driver.h"

#include "test/support/listener.h"
#include "test/support/seed.h"

#include <algorithm>
#include <atomic>
#include <gtest/gtest.h>
#include <random>
#include <set>
#include <sys/socket.h>
#include <thread>

// libnats 3.4 forgets a buffer of 32 bytes when a connection ends inside a message. What it keeps
// for a thread of its own is not given back when that thread ends with the process; it has no name.
extern "C" const char *
__lsan_default_suppressions()
{
    return "leak:natsBuf_Create\nleak:libnats.so\n";
}

namespace outbox::test
{

namespace
{

constexpr char kInfo[] =
    R"(INFO {"server_id":"X","version":"2.9.10","proto":1,"headers":true,"max_payload":1048576,"jetstream":true})"
    "\r\n";

// Speaks the protocol as a server does, up to the moment when it does not.
class FuzzServer
{
public:
    explicit FuzzServer(unsigned seed) : random_(seed), thread_([this] { run(); }) {}
    ~FuzzServer()
    {
        ended_ = true;
        listener_.end();
        thread_.join();
    }

    int port() const { return listener_.port(); }
    // From now on it acknowledges everything.
    void behave() { behaves_ = true; }
    std::set<std::string> acknowledged() const { return acknowledged_; }

private:
    void run()
    {
        while (!ended_)
        {
            const int client = listener_.accept();
            if (client < 0)
                continue;
            const timeval limit = {0, 100000};
            (void) setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
            serve(client);
            (void) ::close(client);
        }
    }

    bool say(int client, std::string bytes)
    {
        if (!behaves_ && random_() % 4 == 0)
            mutate(bytes);
        return ::send(client, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
               static_cast<ssize_t>(bytes.size());
    }

    void mutate(std::string &bytes)
    {
        for (auto n = 1 + random_() % 4; n > 0 && !bytes.empty(); n--)
        {
            const std::size_t at = random_() % bytes.size();
            switch (random_() % 5)
            {
            case 0:
                bytes[at] = static_cast<char>(random_());
                break;
            case 1:
                bytes.resize(at);
                break;
            case 2:
                bytes.insert(at, "\r\n");
                break;
            case 3:
                bytes.insert(at, std::string(random_() % 300, "0{\"9 \t"[random_() % 6]));
                break;
            default:
                bytes.erase(at, random_() % 8);
            }
        }
    }

    std::string answer_to(const std::string &reply)
    {
        static const char *const kAnswers[] = {
            R"({"stream":"S","seq":0})",
            R"({"error":{"code":503,"err_code":10077,"description":"full"}})",
            R"({"error":{"code":400,"err_code":10054,"description":"large"}})",
            R"({"error":{"code":500,"err_code":99999,"description":"\u0000\"}})",
            R"({"error":[]})",
            R"([[[[[[[[[[[[[[[[[[[[[[)",
            "",
            "+OK"};
        std::string body = R"({"stream":"S","seq":)" + std::to_string(++sequence_) + "}";
        const auto choice = behaves_ ? 99 : random_() % 30;
        if (choice < 8)
            body = kAnswers[choice];
        if (choice == 8)
            return "HMSG " + reply + " 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n";
        if (choice == 9)
            return "-ERR 'Permissions Violation for Publish to \"a." +
                   std::to_string(random_() % 3) + "\"'\r\n";
        if (choice == 10)
            return "-ERR 'Maximum Payload Violation'\r\n";
        if (choice == 11)
            return "MSG " + reply + " 1 999999999\r\n" + body;
        if (choice == 12)
            return "HMSG " + reply + " 1 20 10\r\nNATS/1.0 \r\n\r\n";
        return "MSG " + reply + " 1 " + std::to_string(body.size()) + "\r\n" + body + "\r\n";
    }

    void serve(int client)
    {
        std::string heard;
        if (!say(client, kInfo))
            return;
        for (int quiet = 0; !ended_ && quiet < 50;)
        {
            char buffer[65536];
            const ssize_t size = ::recv(client, buffer, sizeof buffer, 0);
            if (size == 0)
                return;
            quiet = size < 0 ? quiet + 1 : 0;
            heard.append(buffer, size > 0 ? static_cast<size_t>(size) : 0);
            for (std::size_t end = 0; (end = heard.find("\r\n")) != std::string::npos;)
            {
                const std::string line = heard.substr(0, end);
                if (!hear(client, line, heard, end + 2))
                    break;
            }
            if (!behaves_ && random_() % 200 == 0)
                return;
        }
    }

    // False when more has to arrive first.
    bool hear(int client, const std::string &line, std::string &heard, std::size_t rest)
    {
        if (line.compare(0, 5, "HPUB ") == 0)
        {
            const std::size_t size = std::stoul(line.substr(line.rfind(' ')));
            if (heard.size() < rest + size + 2)
                return false;
            const std::size_t space = line.find(' ', 5) + 1;
            const std::string reply = line.substr(space, line.find(' ', space) - space);
            heard.erase(0, rest + size + 2);
            (void) say(client, answer_to(reply));
            return true;
        }
        heard.erase(0, rest);
        if (line.compare(0, 4, "PING") == 0)
            (void) say(client, "PONG\r\n");
        return true;
    }

    const Listener listener_;
    std::mt19937 random_;
    std::atomic<bool> ended_{false};
    std::atomic<bool> behaves_{false};
    std::uint64_t sequence_ = 0;
    std::set<std::string> acknowledged_;
    std::thread thread_;
};

// Nothing is lost, told twice or out of order, whatever the server says; and once it behaves, all
// arrives.
TEST(NatsFuzz, AServerMaySayAnything)
{
    const unsigned seed = choose_seed();
    std::mt19937 random(seed);
    for (unsigned round = 0; round < 2; round++)
    {
        FuzzServer server(seed + round);
        nats::Settings settings =
            nats_settings("nats://127.0.0.1:" + std::to_string(server.port()));
        settings.timeout_ms = 150;
        settings.backoff_initial_ms = 1;
        settings.backoff_max_ms = 10;
        NatsDriver driver(settings, 50);
        for (int i = 0; i < 200; i++)
        {
            driver.produce({"a." + std::to_string(random() % 3), std::to_string(random() % 20),
                            std::string(random() % 500, 'x')});
            driver.serve(static_cast<int>(random() % 3));
        }
        server.behave();
        ASSERT_TRUE(driver.until_empty(20000)) << driver.texts.substr(0, 2000);
        std::set<std::uint64_t> told(driver.delivered_tags.begin(), driver.delivered_tags.end());
        EXPECT_EQ(told.size(), driver.delivered_tags.size());
        for (const auto &failure : driver.failures)
            EXPECT_TRUE(told.insert(failure.first).second);
        EXPECT_EQ(told.size(), driver.last_tag);
    }
}

} // namespace

} // namespace outbox::test
