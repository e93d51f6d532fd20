// The sink on a server that means harm: one that stops where libnats waits without a limit, that
// repeats secrets, or that sends it elsewhere.
#include "support/driver.h"
#include "support/evil_server.h"

#include "test/support/seed.h"
#include "test/support/tree.h"
#include "test/support/workspace.h"

#include <atomic>
#include <gtest/gtest.h>
#include <random>
#include <thread>

namespace outbox::test
{

namespace
{

// libnats would wait for the rest for ever.
TEST(NatsEvilServer, OneThatStopsWithinTlsIsGivenUpAndReported)
{
    for (const std::string where :
         {"before the handshake", "within the handshake", "within a record"})
    {
        EvilServer server(
            [&](Peer &peer, SSL_CTX *tls, int number)
            {
                if (number > 1)
                {
                    if (!greet(peer, tls).empty())
                        acknowledge_all(peer);
                    return;
                }
                if (where == "within a record")
                {
                    if (!greet(peer, tls).empty())
                        (void) peer.send_raw(std::string("\x17\x03\x03\x01\x00"
                                                         "abc",
                                                         8));
                }
                else
                {
                    (void) peer.send_raw(std::string("INFO ") + kHello +
                                         R"(,"tls_required":true})" + "\r\n");
                    if (where == "within the handshake")
                        (void) peer.send_raw(std::string("\x16\x03\x03\x40\x00\x02\x00", 7));
                }
                peer.wait_for_end();
            });
        nats::Settings settings = nats_settings(server.url());
        settings.ca_file = tls_files().ca;
        settings.timeout_ms = 300;
        NatsDriver driver(settings);
        driver.produce({"a.x", "k", "1"});
        EXPECT_TRUE(driver.until([&] { return !driver.delivered_tags.empty(); }, 5000)) << where;
        EXPECT_GE(driver.troubles, 1) << where;
        EXPECT_TRUE(driver.sink->close(2000)) << where;
    }
}

// The thread would be in libnats as long as they come, and nothing else is to be waited for.
TEST(NatsEvilServer, OneThatSendsNewKeysOfTlsWithoutAnEndIsLeft)
{
    for (const bool idle : {true, false})
    {
        std::atomic<bool> left{false};
        EvilServer server(
            [&](Peer &peer, SSL_CTX *tls, int number)
            {
                if (greet(peer, tls).empty())
                    return;
                if (number > 1)
                    return acknowledge_all(peer);
                while (peer.send_new_key())
                    continue;
                left = true;
            });
        nats::Settings settings = nats_settings(server.url());
        settings.tls = true;
        settings.ca_file = tls_files().ca;
        settings.timeout_ms = 500;
        NatsDriver driver(settings);
        if (!idle)
            driver.produce({"a.x", "k", "1"});
        // Served when it asks for it only, as the engine does.
        int due_ms = -1;
        EXPECT_TRUE(wait_until(Milliseconds(8000),
                               [&]
                               {
                                   constexpr int kStepMs = 20;
                                   pollfd fd = {driver.wake_fd, POLLIN, 0};
                                   const bool woken = ::poll(&fd, 1, kStepMs) > 0;
                                   due_ms -= due_ms > 0 ? std::min(due_ms, kStepMs) : 0;
                                   if (woken || due_ms == 0)
                                   {
                                       driver.serve(0);
                                       due_ms = driver.sink->serve_within_ms();
                                   }
                                   return left.load();
                               }))
            << idle;
        if (idle)
            driver.produce({"a.x", "k", "1"});
        EXPECT_TRUE(driver.until([&] { return !driver.delivered_tags.empty(); })) << idle;
    }
}

// A sink that is closed leaves nobody behind.
TEST(NatsEvilServer, AThreadThatIsHeldUpEndsWithItsSink)
{
    std::atomic<bool> ended{false};
    EvilServer server(
        [&](Peer &peer, SSL_CTX *, int)
        {
            (void) peer.send_raw(std::string("INFO ") + kHello + R"(,"tls_required":true})" +
                                 "\r\n");
            peer.wait_for_end();
            ended = true;
        });
    nats::Settings settings = nats_settings(server.url());
    settings.ca_file = tls_files().ca;
    settings.timeout_ms = 60000;
    NatsDriver driver(settings);
    driver.produce({"a.x", "k", "1"});
    ASSERT_TRUE(driver.until([&] { return server.connections() == 1; }));
    (void) driver.sink->close(100);
    EXPECT_TRUE(wait_until(Milliseconds(5000), [&] { return ended.load(); }));
}

// Wherever a server may speak, and wherever its words are cut.
TEST(NatsEvilServer, OneThatRepeatsASecretIsNotShownWithIt)
{
    const std::string secret = "open/se\"same\\of-forty-\xc3\xa4-thieves";
    const std::string in_json = "open\\/se\\\"same\\\\of-forty-\xc3\xa4-thieves";
    const auto file = run_dir() / unique_name("secret-");
    write_file(file, secret + "\n");
    enum Place
    {
        kGreeting,
        kLater,
        kPermission,
        kAcknowledgement,
        kPlaces
    };
    for (const bool token : {false, true})
        for (int place = 0; place < kPlaces; place++)
        {
            std::atomic<int> padding{place == kAcknowledgement ? 130 : 180};
            EvilServer server(
                [&](Peer &peer, SSL_CTX *, int)
                {
                    const std::string before(
                        static_cast<std::size_t>(padding.fetch_add(place == kPermission ? 5 : 1)),
                        'x');
                    if (place == kGreeting)
                    {
                        (void) peer.send_raw(std::string("INFO ") + kHello + "}\r\n");
                        (void) peer.line();
                        (void) peer.send("-ERR '" + before + secret + "\x1b[2J'\r\n");
                        return;
                    }
                    const std::string inbox = greet(peer, nullptr);
                    if (place == kLater)
                        (void) peer.send("-ERR '" + before + secret + "\x1b[2J'\r\n");
                    if (place == kPermission)
                    {
                        (void) peer.send("-ERR 'Permissions Violation for Subscription " + before +
                                         secret + "\x1b[2J'\r\n");
                        peer.wait_for_end();
                    }
                    if (place == kAcknowledgement)
                        acknowledge_all(peer, R"({"error":{"code":400,"description":")" + before +
                                                  in_json + "\"}}");
                });
            nats::Settings settings = nats_settings(server.url());
            (token ? settings.token_file : settings.password_file) = file.string();
            settings.user = token ? "" : "somebody";
            settings.timeout_ms = 150;
            settings.backoff_initial_ms = settings.backoff_max_ms = 1;
            NatsDriver driver(settings);
            const auto enough = [&]
            {
                if (place != kAcknowledgement)
                    return padding > 260;
                if (driver.sink->outstanding() == 0)
                    driver.produce({"a.x", "k", "1"});
                return driver.failures.size() > 10;
            };
            if (place != kAcknowledgement)
                driver.produce({"a.x", "k", "1"});
            EXPECT_TRUE(driver.until(enough)) << place;
            std::string shown = driver.texts;
            for (const auto &[tag, failure] : driver.failures)
                shown += failure.text;
            for (const std::string &part : {secret.substr(0, 4), in_json.substr(0, 5)})
                EXPECT_EQ(shown.find(part), std::string::npos)
                    << place
                    << shown.substr(std::max<std::size_t>(shown.find(part), 400) - 400, 800);
            EXPECT_NE(shown.find("***"), std::string::npos) << place;
            EXPECT_EQ(shown.find('\x1b'), std::string::npos) << place;
        }
}

TEST(NatsEvilServer, OneThatNamesOthersSendsNobodyThere)
{
    std::atomic<bool> was_there{false};
    EvilServer other([&](Peer &, SSL_CTX *, int) { was_there = true; });
    const std::string host = other.url().substr(7);
    std::atomic<int> asked{0};
    EvilServer server(
        [&](Peer &peer, SSL_CTX *, int)
        {
            asked++;
            (void) peer.send(std::string("INFO ") + kHello + R"(,"connect_urls":[")" + host +
                             "\"]}\r\n");
            (void) peer.line();
            (void) peer.send("-ERR 'Authorization Violation'\r\n");
        });
    nats::Settings settings = nats_settings(server.url());
    NatsDriver driver(settings);
    driver.produce({"a.x", "k", "1"});
    EXPECT_TRUE(driver.until([&] { return asked >= 3; }));
    EXPECT_FALSE(was_there);
}

} // namespace

} // namespace outbox::test
