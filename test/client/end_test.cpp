// How a consumer ends when what it needs for that does not answer.
#include <atomic>

#include "e2e/real_kafka_test.h"
#include "e2e/servers.h"
#include "harness.h"
#include "redis_server.h"
#include "support/count.h"
#include "support/kafka_admin.h"
#include "support/kafka_cluster.h"

using namespace outbox::test;

namespace
{

constexpr auto kEnd = Milliseconds(12000); // beyond close_timeout, as consumer.h says

struct Paused
{
    explicit Paused(Process &process) : process_(process) { process_.pause(); }
    ~Paused() { process_.resume(); }
    Paused(const Paused &) = delete;
    Paused &operator=(const Paused &) = delete;

private:
    Process &process_;
};

} // namespace

// librdkafka waits for a minute until it gives up the commit.
REAL_KAFKA_TEST(End, StopEndsInTimeThoughKafkaStandsStillAndAnOffsetIsToBeCommitted)
{
    Scene scene;
    scene.writer.write(scene.topic, "k", "{}", event_id(1));
    outbox::ConsumerOptions options = scene.options();
    options.commit_interval = std::chrono::hours(1); // only at the end
    options.close_timeout = Milliseconds(2000);
    auto consumer = std::make_unique<RunningConsumer>(options, &insert_effect);
    ASSERT_TRUE(scene.reaches(1));
    {
        const Paused kafka_pauses(dynamic_cast<RealKafka &>(kafka()).process(0));
        const auto start = Clock::now();
        consumer->finish();
        EXPECT_LT(since(start), options.close_timeout + kEnd);
        EXPECT_EQ(count(consumer->log(), "left behind"), 1U) << consumer->log();
        // What librdkafka's threads still use is not the consumer's any more.
        consumer.reset();
    }
    // The effect is there once, and the offset is committed by whoever comes next.
    options.commit_interval = Milliseconds(50);
    RunningConsumer next(options, &insert_effect);
    EXPECT_TRUE(scene.drained(options.consumer));
    next.finish();
    EXPECT_EQ(scene.effects(), 1);
}

// The partitions are taken back while Kafka does not take the dead letter.
REAL_KAFKA_TEST(End, StopEndsInTimeThoughKafkaStandsStillWithADeadLetterUnderWay)
{
    Scene scene;
    scene.writer.write(scene.topic, "k", "{}", event_id(1));
    outbox::ConsumerOptions options = scene.options();
    options.close_timeout = Milliseconds(2000);
    options.max_attempts = 1;
    Process &process = dynamic_cast<RealKafka &>(kafka()).process(0);
    RunningConsumer consumer(options,
                             [&](PGconn *, const outbox::Record &)
                             {
                                 process.pause();
                                 throw std::runtime_error("bad");
                             });
    EXPECT_TRUE(wait_until(kSoon, [&] { return consumer.logged("attempt 1 of 1 failed"); }));
    const auto start = Clock::now();
    consumer.finish();
    EXPECT_LT(since(start), options.close_timeout + kEnd);
    process.resume();
}

// The handler has made its effect, and Redis is neither told nor says so. One budget for all that
// is asked of it, however often.
TEST(End, StopEndsInTimeThoughRedisIsSilent)
{
    Scene scene;
    RedisServer redis;
    outbox::RedisOptions patient = redis.options();
    patient.timeout = std::chrono::minutes(1);
    outbox::ConsumerOptions options = scene.options();
    options.store = std::make_shared<outbox::RedisDedupStore>(patient);
    options.conninfo.clear();
    options.close_timeout = Milliseconds(3000);
    scene.writer.write(scene.topic, "k", "{}", event_id(1));
    std::atomic<bool> made{false};
    RunningConsumer consumer(options,
                             [&](PGconn *, const outbox::Record &)
                             {
                                 redis.pause();
                                 made = true;
                             });
    EXPECT_TRUE(wait_until(kSoon, [&] { return made.load(); }));
    const auto start = Clock::now();
    consumer.finish();
    EXPECT_LT(since(start), options.close_timeout + kEnd);
    EXPECT_TRUE(consumer.logged("the effect is made, but the dedup store could not be told"));
    EXPECT_FALSE(consumer.logged("not left the group")) << "Redis has taken all of the time";
    redis.resume();
}
