// The dedup store in Redis, alone and with a consumer.
#include <atomic>

#include "harness.h"
#include "redis_server.h"
#include "support/tcp_proxy.h"

using namespace outbox::test;
using outbox::Claim;
using outbox::RedisDedupStore;

namespace
{

const std::string kId = event_id(1);

outbox::ConsumerOptions
redis_options(const std::string &topic, const outbox::RedisOptions &redis)
{
    outbox::ConsumerOptions options = quick_options("redis", topic, "");
    options.store = std::make_shared<RedisDedupStore>(redis);
    return options;
}

std::string
new_topic()
{
    const std::string topic = unique_name("redis-");
    kafka().create_topic(topic);
    return topic;
}

bool
drained(const outbox::ConsumerOptions &options)
{
    return wait_until(
        kSoon,
        [&] { return group_lag(kafka().bootstrap(), options.consumer, options.topics[0]) == 0; });
}

std::string
refusal(const outbox::RedisOptions &options)
{
    try
    {
        const RedisDedupStore store(options);
    }
    catch (const outbox::UsageError &error)
    {
        return error.what();
    }
    return "";
}

} // namespace

TEST(Redis, ATtlShorterThanTheReplayWindowIsRefused)
{
    outbox::RedisOptions options;
    EXPECT_NE(refusal(options).find("must be positive"), std::string::npos);
    options.ttl = std::chrono::hours(24);
    options.replay_window = std::chrono::hours(24) + Milliseconds(1);
    EXPECT_NE(refusal(options).find("shorter than the replay window"), std::string::npos);
    options.replay_window = options.ttl;
    EXPECT_EQ(refusal(options), "");
    options.lease = options.ttl + Milliseconds(1);
    EXPECT_NE(refusal(options).find("shorter than the lease"), std::string::npos);
    options.lease = Milliseconds(1);
    options.port = 70000;
    EXPECT_NE(refusal(options).find("port"), std::string::npos);
}

TEST(Redis, AClaimIsForOneAndIsConfirmedReleasedOrRunsOut)
{
    RedisServer redis;
    outbox::RedisOptions options = redis.options();
    RedisDedupStore mine(options);
    options.lease = Milliseconds(300);
    RedisDedupStore others(options);

    EXPECT_EQ(mine.claim(nullptr, "c", kId), Claim::first);
    EXPECT_EQ(others.claim(nullptr, "c", kId), Claim::busy);
    EXPECT_EQ(others.claim(nullptr, "another consumer", kId), Claim::first);
    EXPECT_EQ(mine.claim(nullptr, "c", kId), Claim::first) << "an attempt whose release was lost";
    others.release("c", kId); // not theirs
    EXPECT_EQ(others.claim(nullptr, "c", kId), Claim::busy);
    mine.release("c", kId);
    EXPECT_EQ(others.claim(nullptr, "c", kId), Claim::first);
    // Its lease runs out, as if it had died.
    EXPECT_TRUE(wait_until(kSoon, [&] { return mine.claim(nullptr, "c", kId) == Claim::first; }));
    EXPECT_FALSE(others.confirm("c", kId)) << "too late";
    EXPECT_TRUE(mine.confirm("c", kId));
    EXPECT_EQ(mine.claim(nullptr, "c", kId), Claim::repeated);
    EXPECT_EQ(others.claim(nullptr, "c", kId), Claim::repeated);
}

TEST(Redis, ErrorsOfItAreStoreErrors)
{
    RedisServer redis("secret word");
    outbox::RedisOptions options = redis.options();
    EXPECT_EQ(RedisDedupStore(options).claim(nullptr, "c", kId), Claim::first);
    options.password = "wrong";
    for (int twice = 0; twice < 2; ++twice) // not usable after a refusal, either
    {
        RedisDedupStore store(options);
        try
        {
            (void) store.claim(nullptr, "c", kId);
            ADD_FAILURE() << "accepted a wrong password";
        }
        catch (const outbox::StoreError &error)
        {
            EXPECT_EQ(error.code(), "58000");
            EXPECT_EQ(std::string(error.what()).find("wrong password"), std::string::npos);
        }
    }
    redis.kill9();
    RedisDedupStore store(redis.options());
    try
    {
        (void) store.claim(nullptr, "c", kId);
        ADD_FAILURE() << "claimed without a Redis";
    }
    catch (const outbox::StoreError &error)
    {
        EXPECT_EQ(error.code(), "08006");
    }
}

TEST(Redis, AnEventThatComesTwiceIsProcessedOnceAndAFailureIsTriedAgain)
{
    RedisServer redis;
    RecordWriter writer(kafka().bootstrap());
    const std::string topic = new_topic();
    for (int i = 0; i < 40; ++i)
        writer.send(topic, "k", "{}", event_id(i / 2));
    writer.flush();
    std::atomic<int> failures{0};
    std::map<std::string, int> effects;
    const outbox::ConsumerOptions options = redis_options(topic, redis.options());
    RunningConsumer consumer(options,
                             [&](PGconn *transaction, const outbox::Record &record)
                             {
                                 EXPECT_EQ(transaction, nullptr);
                                 if (++failures <= 3)
                                     throw std::runtime_error("not yet");
                                 ++effects[record.event_id];
                             });
    EXPECT_TRUE(drained(options));
    consumer.finish();
    EXPECT_EQ(effects.size(), 20U);
    for (const auto &[id, count] : effects)
        EXPECT_EQ(count, 1) << id;
}

TEST(Redis, AnEventThatADeadConsumerHadInHandIsProcessedWhenItsLeaseIsOver)
{
    RedisServer redis;
    RecordWriter writer(kafka().bootstrap());
    const std::string topic = new_topic();
    const outbox::ConsumerOptions options = redis_options(topic, redis.options());
    RedisDedupStore dead(redis.options());
    EXPECT_EQ(dead.claim(nullptr, options.consumer, kId), Claim::first);
    writer.write(topic, "k", "{}", kId);
    std::atomic<int> calls{0};
    RunningConsumer consumer(options, [&](PGconn *, const outbox::Record &) { ++calls; });
    EXPECT_TRUE(wait_until(kSoon, [&] { return consumer.logged("somebody else is processing"); }));
    EXPECT_EQ(calls, 0);
    redis.command({"EVAL",
                   "for _, key in ipairs(redis.call('keys', '*')) do"
                   " redis.call('pexpire', key, 200) end",
                   "0"}); // what is left of its lease
    EXPECT_TRUE(drained(options));
    consumer.finish();
    EXPECT_EQ(calls, 1);
}

TEST(Redis, AnEffectWhoseMarkCannotBeWrittenIsMarkedWhenRedisIsBack)
{
    RedisServer redis;
    RecordWriter writer(kafka().bootstrap());
    const std::string topic = new_topic();
    writer.write(topic, "k", "{}", kId, {}, 0);
    const outbox::ConsumerOptions options = redis_options(topic, redis.options());
    std::atomic<int> calls{0};
    RunningConsumer consumer(options,
                             [&](PGconn *, const outbox::Record &)
                             {
                                 ++calls;
                                 redis.kill9();
                             });
    EXPECT_TRUE(wait_until(kSoon, [&] { return consumer.logged("the dedup store: "); }));
    redis.start();
    writer.write(topic, "k", "{}", kId, {}, 0);
    EXPECT_TRUE(drained(options));
    consumer.finish();
    EXPECT_EQ(calls, 1);
}

TEST(Redis, ATimeThatRedisCannotKeepIsRefusedAtOnce)
{
    outbox::RedisOptions options;
    options.ttl = options.replay_window = Milliseconds::max();
    EXPECT_NE(refusal(options).find("a hundred years"), std::string::npos);
    options.ttl = options.replay_window = std::chrono::hours(24 * 36525);
    EXPECT_EQ(refusal(options), "");
    RedisServer redis;
    options.port = redis.port();
    RedisDedupStore store(options);
    EXPECT_EQ(store.claim(nullptr, "c", kId), Claim::first);
    EXPECT_TRUE(store.confirm("c", kId));
}

TEST(Redis, AUserMayHaveNoPassword)
{
    RedisServer redis;
    redis.command({"ACL", "SETUSER", "books", "on", "nopass", "~*", "+@all"});
    redis.command({"ACL", "SETUSER", "default", "off"});
    outbox::RedisOptions options = redis.options();
    options.username = "books";
    EXPECT_EQ(RedisDedupStore(options).claim(nullptr, "c", kId), Claim::first);
}

TEST(Redis, ADemotedPrimaryIsLeft)
{
    RedisServer old_primary;
    RedisServer new_primary;
    TcpProxy name; // that stands for the primary
    name.forward_to(old_primary.port());
    outbox::RedisOptions options = old_primary.options();
    options.port = name.port();
    RedisDedupStore store(options);
    EXPECT_EQ(store.claim(nullptr, "c", kId), Claim::first);
    old_primary.command({"REPLICAOF", "127.0.0.1", std::to_string(new_primary.port())});
    name.forward_to(new_primary.port());
    try
    {
        (void) store.confirm("c", kId);
        ADD_FAILURE() << "a replica has taken it";
    }
    catch (const outbox::StoreError &error)
    {
        EXPECT_NE(std::string(error.what()).find("READONLY"), std::string::npos) << error.what();
    }
    EXPECT_TRUE(store.confirm("c", kId)); // by another connection
    EXPECT_EQ(RedisDedupStore(new_primary.options()).claim(nullptr, "c", kId), Claim::repeated);
}

// The effect is made, Redis cannot be told, the partition is taken away and comes back: the process
// knows what it has done.
TEST(Redis, AnEffectIsNotMadeAgainByTheProcessThatMadeIt)
{
    RedisServer redis;
    RecordWriter writer(kafka().bootstrap());
    const std::string topic = new_topic();
    outbox::ConsumerOptions options = redis_options(topic, redis.options());
    options.kafka_config["session.timeout.ms"] = options.kafka_config["max.poll.interval.ms"] =
        "3000";
    TcpProxy proxy;
    proxy.forward_to(redis.port());
    outbox::RedisOptions through = redis.options();
    through.port = proxy.port();
    options.store = std::make_shared<RedisDedupStore>(through);
    writer.write(topic, "k", "{}", kId, {}, 0);
    std::atomic<int> calls{0};
    const auto members = [&] { return group_members(kafka().bootstrap(), options.consumer); };
    RunningConsumer consumer(options,
                             [&](PGconn *, const outbox::Record &)
                             {
                                 if (++calls > 1)
                                     return;
                                 proxy.set(TcpProxy::Mode::kCut);
                                 wait_until(kSoon, [&] { return members() == 0; });
                             });
    EXPECT_TRUE(wait_until(kSoon, [&] { return consumer.logged("partitions lost"); }));
    proxy.set(TcpProxy::Mode::kPass);
    EXPECT_TRUE(drained(options));
    consumer.finish();
    EXPECT_EQ(calls, 1);
}

TEST(Redis, AConfirmWhoseAnswerWasLostIsNoExpiredClaim)
{
    RedisServer redis;
    TcpProxy proxy;
    outbox::RedisOptions options = redis.options();
    proxy.forward_to(options.port);
    options.port = proxy.port();
    options.timeout = Milliseconds(2000);
    options.lease = std::chrono::seconds(60);
    RedisDedupStore mine(options);
    RedisDedupStore others(redis.options());
    ASSERT_EQ(mine.claim(nullptr, "c", kId), Claim::first);
    proxy.set(TcpProxy::Mode::kNoAnswers);
    EXPECT_EQ(code_of([&] { (void) mine.confirm("c", kId); }), "08006");
    EXPECT_TRUE(
        wait_until(kSoon, [&] { return others.claim(nullptr, "c", kId) == Claim::repeated; }));
    proxy.set(TcpProxy::Mode::kPass);
    EXPECT_TRUE(mine.confirm("c", kId));
    // Without a lease that lasts, somebody else may have been there.
    options.lease = Milliseconds(50);
    RedisDedupStore slow(options);
    const std::string id = event_id(2);
    ASSERT_EQ(slow.claim(nullptr, "c", id), Claim::first);
    ASSERT_TRUE(wait_until(kSoon, [&] { return others.claim(nullptr, "c", id) == Claim::first; }));
    EXPECT_TRUE(others.confirm("c", id));
    EXPECT_FALSE(slow.confirm("c", id));
}

// What a full Redis evicts may be made again; what it refuses is tried again, and nobody is blamed.
TEST(Redis, AFullRedisHoldsUpEffectsAndLosesNone)
{
    RedisServer redis;
    redis.command({"CONFIG", "SET", "maxmemory-policy", "noeviction"});
    redis.command({"CONFIG", "SET", "maxmemory", "1"});
    RecordWriter writer(kafka().bootstrap());
    const std::string topic = new_topic();
    for (int i = 0; i < 5; ++i)
        writer.send(topic, "k", "{}", event_id(i), {}, 0);
    writer.flush();
    outbox::ConsumerOptions options = redis_options(topic, redis.options());
    options.max_attempts = 1;
    std::map<std::string, int> effects;
    std::atomic<int> calls{0};
    RunningConsumer consumer(options,
                             [&](PGconn *, const outbox::Record &record)
                             {
                                 ++effects[record.event_id];
                                 ++calls;
                             });
    EXPECT_TRUE(wait_until(kSoon, [&] { return consumer.logged("Redis refuses"); }));
    EXPECT_EQ(calls, 0);
    redis.command({"CONFIG", "SET", "maxmemory", "0"});
    EXPECT_TRUE(drained(options));
    consumer.finish();
    EXPECT_EQ(effects.size(), 5U);
    EXPECT_EQ(calls, 5);
}

// A Redis that evicts forgets marks, and claims of handlers that run: what comes again then is done
// again, and nothing is left out.
TEST(Redis, WhatAnEvictingRedisForgetsIsDoneAgainAndNothingIsLost)
{
    RedisServer redis;
    const auto evict_all = [&]
    {
        redis.command({"CONFIG", "SET", "maxmemory", "1"});
        EXPECT_ANY_THROW(redis.command({"SET", "one", "more"})); // it has nothing left to evict
        redis.command({"CONFIG", "SET", "maxmemory", "0"});
    };
    redis.command({"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"});
    RecordWriter writer(kafka().bootstrap());
    const std::string topic = new_topic();
    outbox::ConsumerOptions options = redis_options(topic, redis.options());
    options.max_attempts = 1;
    std::map<std::string, int> effects;
    std::atomic<int> calls{0};
    RunningConsumer consumer(options,
                             [&](PGconn *, const outbox::Record &record)
                             {
                                 if (record.value == "evict")
                                     evict_all();
                                 ++effects[record.event_id];
                                 ++calls;
                             });
    const auto write = [&](int id, const char *value)
    { writer.write(topic, "k", value, event_id(id), {}, 0); };
    write(1, "");
    write(2, "evict"); // the mark of 1, and its own claim
    write(1, "");
    write(2, ""); // marked though its claim was gone
    EXPECT_TRUE(drained(options));
    consumer.finish();
    EXPECT_EQ(calls, 3);
    EXPECT_EQ(effects[event_id(1)], 2);
    EXPECT_EQ(effects[event_id(2)], 1);
}
