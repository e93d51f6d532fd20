// The sink on a server that never ends what it says.
#include "support/driver.h"
#include "support/evil_server.h"

#include "test/support/seed.h"
#include "test/support/times.h"

#include <atomic>
#include <cstdint>
#include <ctime>
#include <gtest/gtest.h>
#include <random>

#ifdef __SANITIZE_ADDRESS__
extern "C" std::size_t __sanitizer_get_current_allocated_bytes(); // its header is not everywhere
#else
#include <malloc.h>
#endif

namespace outbox::test
{

namespace
{

// Of this process, what is allocated: not what a sanitizer keeps of what was freed.
std::size_t
memory_in_use()
{
#ifdef __SANITIZE_ADDRESS__
    return __sanitizer_get_current_allocated_bytes();
#else
    const auto info = mallinfo2();
    return info.uordblks + info.hblkhd;
#endif
}

// The process but the thread that asks.
double
cpu_seconds_of_others()
{
    const auto seconds = [](clockid_t clock)
    {
        timespec time = {};
        (void) clock_gettime(clock, &time);
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
    };
    return seconds(CLOCK_PROCESS_CPUTIME_ID) - seconds(CLOCK_THREAD_CPUTIME_ID);
}

// libnats keeps what has no end yet, whatever a server says its size is.
TEST(NatsEvilServer, OneThatNeverEndsWhatItSaysTakesNoMemory)
{
    const std::string filling(65536, 'x');
    std::string pings;
    std::string news;
    for (int i = 0; i < 5000; i++)
        pings += "PING\r\n";
    for (int i = 0; i < 100; i++)
        news += std::string("INFO ") + kHello + "}\r\n";
    for (const auto &[begin, rest] : std::vector<std::pair<std::string, std::string>>{
             {"INFO {\"a\":\"", filling},
             {"-ERR '", filling},
             {"MSG %.1 1 2000000000\r\n", filling},
             {"HMSG %.1 1 1900000000 2000000000\r\n", filling},
             {"", pings},
             {"", news}})
    {
        std::atomic<std::size_t> sent{0};
        EvilServer server(
            [&](Peer &peer, SSL_CTX *, int number)
            {
                const std::string inbox = inbox_of(peer);
                if (inbox.empty())
                    return;
                if (number > 1)
                    return acknowledge_all(peer);
                std::string first = begin;
                if (first.find('%') != std::string::npos)
                    first.replace(first.find('%'), 1, inbox);
                for (bool more = peer.send(first); more; more = peer.send(rest))
                    sent += rest.size();
            });
        NatsDriver driver(nats_settings(server.url()));
        driver.produce({"a.x", "k", "1"});
        EXPECT_TRUE(driver.until([&] { return !driver.delivered_tags.empty(); })) << begin;
        EXPECT_NE(driver.texts.find("PROTOCOL: "), std::string::npos) << begin << driver.texts;
        EXPECT_LT(sent, std::size_t{24} << 20) << begin; // most of it in the kernel's buffers
    }
}

// What is no message counts, whatever messages there are in between: libnats answers each ping and
// keeps each error until it is told, though the server reads nothing.
TEST(NatsEvilServer, OneThatTalksBetweenMessagesTakesNoMemory)
{
    const std::uint64_t seed = choose_seed();
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    for (const std::string &talk :
         {std::string("PING\r\n"), std::string("PONG\r\n"), std::string("+OK\r\n"),
          std::string("-ERR 'Permissions Violation for Publish to \"a\"'\r\n"),
          std::string("-ERR 'Permissions Violation for Subscription to \"b\"'\r\n"),
          std::string("INFO ") + kHello + "}\r\n"})
    {
        std::atomic<std::size_t> sent{0};
        const std::size_t pause = 1000 + random() % 100000;
        const std::size_t size = random() % 2000;
        EvilServer server(
            [&](Peer &peer, SSL_CTX *, int number)
            {
                const std::string inbox = inbox_of(peer);
                if (inbox.empty())
                    return;
                if (number > 1)
                    return acknowledge_all(peer);
                const std::string both = times(static_cast<int>(pause / talk.size()) + 1, talk) +
                                         "MSG " + inbox + ".5 1 " + std::to_string(size) + "\r\n" +
                                         std::string(size, 'x') + "\r\n";
                while (peer.send(both))
                    sent += both.size();
            });
        NatsDriver driver(nats_settings(server.url()));
        driver.produce({"a.x", "k", "1"});
        EXPECT_TRUE(driver.until([&] { return !driver.delivered_tags.empty(); })) << talk;
        EXPECT_NE(driver.texts.find("PROTOCOL: "), std::string::npos) << talk << driver.texts;
        EXPECT_LT(sent, std::size_t{24} << 20) << talk;
    }
}

// An error for each message that was sent is not too much.
TEST(NatsEvilServer, OneThatForbidsEachOfManyMessagesIsHeard)
{
    constexpr int kMany = 3000;
    EvilServer server(
        [&](Peer &peer, SSL_CTX *, int)
        {
            if (greet(peer, nullptr).empty())
                return;
            for (std::string line = peer.line(); !line.empty(); line = peer.line())
            {
                if (line == "PING" && !peer.send("PONG\r\n"))
                    return;
                if (line.rfind("HPUB ", 0) == 0 &&
                    (!peer.skip(std::stoul(line.substr(line.rfind(' '))) + 2) ||
                     !peer.send("-ERR 'Permissions Violation for Publish to \"" +
                                line.substr(5, line.find(' ', 5) - 5) + "\"'\r\n")))
                    return;
            }
        });
    NatsDriver driver(nats_settings(server.url()));
    for (int i = 0; i < kMany; i++)
        driver.produce({"forbidden.subject", std::to_string(i), "1"});
    EXPECT_TRUE(driver.until_empty());
    EXPECT_EQ(driver.failures.size(), static_cast<std::size_t>(kMany));
    EXPECT_EQ(driver.texts.find("PROTOCOL: "), std::string::npos) << driver.texts;
    EXPECT_EQ(server.connections(), 1);
}

// As many as the network carries: they are read slowly, and not kept.
TEST(NatsEvilServer, UnaskedMessagesWithoutAnEndTakeNeitherMemoryNorACore)
{
    constexpr auto kWatched = Milliseconds(2000);
    constexpr std::size_t kMostGrowth = std::size_t{16} << 20;
    constexpr std::size_t kReadAtOnce = std::size_t{16} << 20; // however much work that is
    for (const std::size_t headers : {0, 60000})
        for (const std::size_t size : {0, 1000, 60000})
        {
            std::atomic<bool> done{false};
            std::atomic<std::size_t> sent{0};
            EvilServer server(
                [&](Peer &peer, SSL_CTX *, int)
                {
                    const std::string inbox = inbox_of(peer);
                    if (inbox.empty())
                        return;
                    const std::string header =
                        "NATS/1.0\r\nA: " + std::string(headers, 'h') + "\r\n\r\n";
                    const std::string sizes = headers == 0
                                                  ? std::to_string(size)
                                                  : std::to_string(header.size()) + " " +
                                                        std::to_string(header.size() + size);
                    const std::string one = (headers == 0 ? "MSG " : "HMSG ") + inbox + ".7 1 " +
                                            sizes + "\r\n" + (headers == 0 ? "" : header) +
                                            std::string(size, 'y') + "\r\n";
                    std::string many;
                    while (many.size() < 65536)
                        many += one;
                    while (!done && peer.send(many))
                        sent += many.size();
                });
            nats::Settings settings = nats_settings(server.url());
            settings.timeout_ms = 20000;
            NatsDriver driver(settings);
            driver.produce({"a.x", "k", "1"});
            ASSERT_TRUE(driver.until([&] { return server.connections() == 1; }));
            const std::size_t before = memory_in_use();
            std::size_t most = 0;
            const auto watch = [&](std::size_t until, Milliseconds limit)
            {
                (void) driver.until(
                    [&]
                    {
                        most = std::max(most, memory_in_use());
                        return sent > until;
                    },
                    static_cast<int>(limit.count()));
            };
            watch(kReadAtOnce, 2 * kWatched);
            const double cpu = cpu_seconds_of_others();
            watch(SIZE_MAX, kWatched);
            EXPECT_LT(most, before + kMostGrowth) << headers << " " << size;
            EXPECT_LT(cpu_seconds_of_others() - cpu, 1.0) << headers << " " << size;
            done = true;
            (void) driver.sink->close(1000);
        }
}

// Messages that nobody asked for, from a server that may say anything, are no flood:
// acknowledgements among them count.
TEST(NatsEvilServer, UnaskedMessagesHoldNothingUp)
{
    EvilServer server(
        [&](Peer &peer, SSL_CTX *, int)
        {
            const std::string inbox = inbox_of(peer);
            if (inbox.empty())
                return;
            std::string unasked;
            for (int i = 0; i < 200; i++)
                unasked += "MSG " + inbox + "." + std::to_string(i) + " 1 60000\r\n" +
                           std::string(60000, 'y') + "\r\n";
            if (peer.send(unasked))
                acknowledge_all(peer);
        });
    NatsDriver driver(nats_settings(server.url()));
    for (int i = 0; i < 10; i++)
        driver.produce({"a.x", "k", "1"});
    EXPECT_TRUE(driver.until([&] { return driver.delivered_tags.size() == 10; }));
    EXPECT_EQ(driver.failures.size(), 0U);
}

} // namespace

} // namespace outbox::test
