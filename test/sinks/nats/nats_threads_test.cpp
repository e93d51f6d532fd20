// Threads and ends of the sink, on servers that hang or are not there.
#include "support/driver.h"
#include "support/nats_server.h"

#include "test/support/listener.h"
#include "test/support/threads.h"

#include <csignal>
#include <filesystem>
#include <gtest/gtest.h>
#include <set>
#include <vector>

namespace outbox::test
{

namespace
{

// What they lead to.
std::vector<std::string>
open_descriptors()
{
    std::vector<std::string> all;
    std::error_code gone;
    for (const auto &entry : std::filesystem::directory_iterator("/proc/self/fd"))
        all.push_back(std::filesystem::read_symlink(entry.path(), gone));
    return all;
}

TEST(NatsThreads, AllOfThemBlockAllSignalsAndEndWithTheSink)
{
    NatsServer server;
    server.start();
    server.add_stream({"EVENTS", {"a.>"}});
    {
        // libnats's own threads are there from its first use to the end of the process.
        NatsDriver first(nats_settings(server.url()));
        first.produce({"a.x", "k", "1"});
        ASSERT_TRUE(first.until_empty());
    }
    const std::set<std::string> before = threads();
    const std::vector<std::string> descriptors_before = open_descriptors();
    for (int i = 0; i < 5; i++)
    {
        NatsDriver driver(nats_settings(server.url()));
        driver.produce({"a.x", "k", "1"});
        ASSERT_TRUE(driver.until_empty());
        int ours = 0;
        for (const std::string &thread : threads_besides(before))
        {
            ours++;
            for (const int number : {SIGTERM, SIGINT, SIGURG, SIGUSR1, SIGHUP, SIGALRM, SIGCHLD})
                EXPECT_NE(blocked_signals(thread, ~std::uint64_t{0}) &
                              (std::uint64_t{1} << (number - 1)),
                          0U)
                    << number;
        }
        EXPECT_LE(ours, 2);
        EXPECT_TRUE(driver.sink->close(5000));
    }
    EXPECT_TRUE(wait_until(Milliseconds(5000), [&] { return threads_besides(before).empty(); }));
    EXPECT_TRUE(wait_until(Milliseconds(5000),
                           [&] { return open_descriptors().size() <= descriptors_before.size(); }))
        << testing::PrintToString(open_descriptors()) << ", before "
        << testing::PrintToString(descriptors_before);
}

TEST(NatsThreads, AServerThatDoesNotAnswerHoldsNobodyUp)
{
    Listener silent; // takes connections and says nothing
    nats::Settings settings = nats_settings("nats://127.0.0.1:" + std::to_string(silent.port()));
    settings.timeout_ms = 3000;
    NatsDriver driver(settings);
    const auto start = Clock::now();
    driver.produce({"a.x", "k", "1"});
    driver.serve(10);
    driver.sink->purge();
    driver.serve(10);
    EXPECT_EQ(driver.failures.size(), 1U);
    EXPECT_FALSE(driver.sink->close(50));
    EXPECT_LT(since(start), Milliseconds(1000));
}

TEST(NatsThreads, WithoutAServerItIsTroubleWithGrowingPauses)
{
    int port = 0;
    {
        Listener gone;
        port = gone.port();
    }
    nats::Settings settings = nats_settings("nats://127.0.0.1:" + std::to_string(port));
    settings.backoff_initial_ms = 50;
    settings.backoff_max_ms = 400;
    NatsDriver driver(settings);
    driver.produce({"a.x", "k", "1"});
    const auto start = Clock::now();
    ASSERT_TRUE(driver.until([&] { return driver.troubles >= 5; }));
    EXPECT_GE(since(start), Milliseconds(25 + 50 + 100 + 200 - 20));
    EXPECT_STREQ(driver.last_trouble.name, "NO_CONNECTION");
    const std::string text = driver.last_trouble.text;
    EXPECT_NE(text.find(settings.servers.front()), std::string::npos) << text;
    EXPECT_STRNE(driver.last_trouble.hint, "");
    EXPECT_GE(driver.last_trouble.retry_after_ms, 100);
    EXPECT_FALSE(driver.sink->reachable(0));
    EXPECT_EQ(driver.failed_text(), "");
    EXPECT_TRUE(driver.sink->close(1000));
}

} // namespace

} // namespace outbox::test
