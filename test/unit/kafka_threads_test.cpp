#include "bgworker/sinks/kafka/shutdown.h"
#include "bgworker/sinks/signals_blocked.h"
#include "kafka_mock_cluster.h"
#include "support/threads.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <netdb.h>
#include <set>
#include <thread>
#include <unistd.h>
#include <utility>

namespace outbox::test
{

namespace
{

// Every signal that can be blocked; the C library keeps 32 and 33 for itself.
std::uint64_t
all_signals()
{
    std::uint64_t mask = ~std::uint64_t{0};
    for (const int never : {SIGKILL, SIGSTOP, 32, 33})
        mask &= ~(std::uint64_t{1} << (never - 1));
    return mask;
}

TEST(KafkaThreads, AllOfThemBlockAllSignals)
{
    MockCluster cluster(3);
    const std::set<std::string> before = threads();
    sigset_t mask_before;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask_before);

    Driver driver(cluster.bootstrap());
    // Makes librdkafka start the threads of all brokers.
    for (int i = 0; i < 30; i++)
        driver.produce("t" + std::to_string(i), "k", "v");
    ASSERT_TRUE(driver.serve_until_settled());

    int created = 0;
    for (const std::string &thread : threads_besides(before))
    {
        created++;
        EXPECT_EQ(blocked_signals(thread, 0), all_signals()) << thread;
    }
    EXPECT_GE(created, 5);
    sigset_t mask_after;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask_after);
    for (int signal = 1; signal < NSIG; signal++)
        EXPECT_EQ(sigismember(&mask_before, signal), sigismember(&mask_after, signal));
}

TEST(KafkaThreads, GuardReachesThreadsStartedMeanwhile)
{
    std::uint64_t seen = 0;
    {
        const SignalsBlocked blocked;
        std::thread([&] { seen = blocked_signals(std::to_string(gettid()), 0); }).join();
    }
    EXPECT_EQ(seen, all_signals());
    EXPECT_NE(blocked_signals(std::to_string(gettid()), 0), all_signals());
}

TEST(KafkaThreads, EndWithTheProducer)
{
    const std::string bootstrap = shared_cluster().bootstrap(); // it has threads, too
    const std::set<std::string> before = threads();
    {
        Driver driver(bootstrap);
        driver.produce("t", "k", "v");
        ASSERT_TRUE(driver.serve_until_settled());
        EXPECT_FALSE(threads_besides(before).empty());
        // How soon is librdkafka's matter and the machine's; what a caller waits is bounded below.
        EXPECT_TRUE(driver.producer().close(static_cast<int>(kLimit.count())));
        EXPECT_TRUE(driver.producer().close(0));
    }
    EXPECT_TRUE(wait_until(kLimit, [&] { return threads_besides(before).empty(); }));
}

// Holds up librdkafka's look-up of a broker's name, as a resolver that does not answer does.
struct StuckResolver
{
    std::promise<void> entered;
    std::promise<void> leave;
    bool first = true;

    static int resolve(const char *node, const char *, const addrinfo *, addrinfo **, void *opaque)
    {
        auto *self = static_cast<StuckResolver *>(opaque);
        if (node != nullptr && std::exchange(self->first, false))
        {
            self->entered.set_value();
            self->leave.get_future().wait();
        }
        return EAI_FAIL;
    }
};

TEST(KafkaThreads, DestructionHasATimeLimit)
{
    const std::set<std::string> before = threads();
    StuckResolver resolver;
    rd_kafka_conf_t *config = rd_kafka_conf_new();
    char text[512];
    rd_kafka_conf_set(config, "bootstrap.servers", "some-host:9092", text, sizeof text);
    rd_kafka_conf_set_opaque(config, &resolver);
    rd_kafka_conf_set_resolve_cb(config, &StuckResolver::resolve);
    rd_kafka_conf_set_log_cb(config, nullptr);
    rd_kafka_t *client = rd_kafka_new(RD_KAFKA_PRODUCER, config, text, sizeof text);
    ASSERT_NE(client, nullptr) << text;
    // A producer connects when it has something to ask.
    rd_kafka_topic_destroy(rd_kafka_topic_new(client, "t", nullptr));
    ASSERT_EQ(resolver.entered.get_future().wait_for(kLimit), std::future_status::ready);

    const auto start = Clock::now();
    EXPECT_FALSE(kafka::destroy_within(std::make_unique<kafka::TopicHandles>(client), 100));
    EXPECT_LT(since(start), Milliseconds(1000));
    resolver.leave.set_value();
    EXPECT_TRUE(wait_until(kLimit, [&] { return threads_besides(before).empty(); }))
        << testing::PrintToString(threads_besides(before));
}

} // namespace

} // namespace outbox::test
