// How a consumer ends: by stop(), also from a signal handler and while it waits.
#include <atomic>
#include <csignal>

#include "harness.h"
#include "support/kafka_admin.h"

using namespace outbox::test;

TEST(Consumer, StopFromASignalHandlerEndsItAtOnce)
{
    Scene scene;
    std::atomic<bool> assigned{false};
    outbox::ConsumerOptions options = scene.options();
    options.log = [&](outbox::LogLevel, const std::string &line)
    { assigned = assigned || line.find("assigned") != std::string::npos; };
    outbox::Consumer consumer(options, &insert_effect);
    static outbox::Consumer *the_consumer = nullptr;
    the_consumer = &consumer;
    static const auto handler = [](int) { the_consumer->stop(); };
    const auto before = std::signal(SIGUSR1, +handler);
    std::thread thread([&] { consumer.run(); });
    // From now on there is nothing to do, and its waits are long.
    EXPECT_TRUE(wait_until(kSoon, [&] { return assigned.load(); }));
    const auto start = Clock::now();
    pthread_kill(thread.native_handle(), SIGUSR1);
    thread.join();
    EXPECT_LT(since(start), Milliseconds(2000));
    std::signal(SIGUSR1, before);
}

TEST(Consumer, StopLetsTheHandlerThatRunsEndAndKeepsItsEffect)
{
    expect_stop_keeps_the_effect(outbox::OffsetPolicy::kafka);
}

TEST(Consumer, StopDoesNotWaitForAConcurrentDuplicate)
{
    Scene scene;
    const outbox::ConsumerOptions options = scene.options();
    Db other = scene.database.connect();
    other.exec("begin");
    other.exec("select outbox.mark_processed($1, $2)", event_id(1), options.consumer);
    scene.writer.write(scene.topic, "k", "{}", event_id(1));
    RunningConsumer consumer(options, &insert_effect);
    ASSERT_TRUE(scene.consumer_waits());
    const auto start = Clock::now();
    consumer.finish();
    EXPECT_LT(since(start), Milliseconds(3000));
    other.exec("rollback");
    EXPECT_EQ(scene.effects(), 0);
    EXPECT_EQ(group_lag(kafka().bootstrap(), options.consumer, scene.topic), 1);
}
