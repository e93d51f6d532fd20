// A name service that never answers.
#include <atomic>
#include <cstring>
#include <thread>

#include <dlfcn.h>
#include <netdb.h>

#include "client/src/connect.h"
#include "harness.h"
#include "outbox/redis_dedup_store.h"

using namespace outbox::test;
using outbox::v0::detail::Connector;
using outbox::v0::detail::StopFlag;

namespace
{

std::atomic<bool> silent{false};
std::atomic<int> asked{0}; // for names that have no answer
std::atomic<int> slowly_answered{0};

// Begins, and ends, the silence for names that begin with "silent".
struct Silence
{
    Silence()
    {
        asked = 0;
        silent = true;
    }
    ~Silence() { silent = false; }
};

} // namespace

// In place of the C library's, for all of this program.
extern "C" int
getaddrinfo(const char *node, const char *service, const addrinfo *hints, addrinfo **result)
{
    static const auto real =
        reinterpret_cast<decltype(&getaddrinfo)>(dlsym(RTLD_NEXT, "getaddrinfo"));
    if (node != nullptr && std::strncmp(node, "slow", 4) == 0 &&
        (hints == nullptr || (hints->ai_flags & AI_NUMERICHOST) == 0))
    {
        std::this_thread::sleep_for(Milliseconds(200)); // what the name service takes
        ++slowly_answered;
        return real("127.0.0.1", service, hints, result);
    }
    const bool numeric = hints != nullptr && (hints->ai_flags & AI_NUMERICHOST) != 0;
    if (numeric || node == nullptr || std::strncmp(node, "silent", 6) != 0)
        return real(node, service, hints, result);
    ++asked;
    (void) wait_until(std::chrono::seconds(30), [] { return !silent; });
    return EAI_AGAIN;
}

TEST(NameService, OneThatIsSilentHasItsTimeAndOneThread)
{
    const Silence silence;
    const StopFlag never;
    const std::string base = cluster().conninfo("postgres") +
                             " connect_timeout=2 port=" + std::to_string(cluster().port()) +
                             " host=silent-a,silent-b";
    Connector nobody(base, "test");
    const auto start = Clock::now();
    for (int i = 0; i < 2; ++i)
        EXPECT_EQ(code_of([&] { (void) nobody.connect(never); }), "08001");
    EXPECT_GE(since(start), Milliseconds(3900));
    EXPECT_LT(since(start), Milliseconds(15000));
    EXPECT_EQ(asked, 2);
    EXPECT_TRUE(Connector(base + ",127.0.0.1", "test").connect(never));
}

TEST(NameService, StopReturnsSoonThoughItIsSilent)
{
    const Silence silence;
    Scene scene;
    scene.writer.write(scene.topic, "k", "{}", event_id(1));
    outbox::RedisOptions redis;
    redis.host = "silent-redis";
    redis.ttl = redis.replay_window = std::chrono::hours(1);
    redis.timeout = Milliseconds(2000);
    for (const std::string which : {"PostgreSQL", "Redis"})
    {
        outbox::ConsumerOptions options = scene.options();
        options.close_timeout = Milliseconds(1000);
        if (which == "PostgreSQL")
            options.conninfo += " host=silent-postgres";
        else
        {
            options.store = std::make_shared<outbox::RedisDedupStore>(redis);
            options.conninfo.clear();
        }
        asked = 0;
        RunningConsumer consumer(options, &insert_effect);
        ASSERT_TRUE(wait_until(kSoon, [&] { return asked > 0; })) << which;
        const auto start = Clock::now();
        consumer.finish();
        EXPECT_LT(since(start), Milliseconds(6000)) << which;
    }
}

// A client of librdkafka ends no sooner than its threads, each of which looks up the name of a
// broker.
TEST(NameService, StopReturnsSoonThoughItIsSilentForNamesOfBrokers)
{
    const Silence silence;
    Scene scene;
    outbox::ConsumerOptions options = scene.options();
    options.bootstrap_servers = "silent-kafka:9092";
    options.close_timeout = Milliseconds(1000);
    RunningConsumer consumer(options, &insert_effect);
    ASSERT_TRUE(wait_until(kSoon, [&] { return asked > 0; }));
    const auto start = Clock::now();
    consumer.finish();
    EXPECT_LT(since(start), Milliseconds(6000));

    // Another one waits for the same look-up.
    options.bootstrap_servers += ",silent-too:9092";
    RunningConsumer again(options, &insert_effect);
    ASSERT_TRUE(wait_until(kSoon, [&] { return asked > 1; }));
    again.finish();
    EXPECT_EQ(asked, 2);
}

// librdkafka may, or may not, try the silent one first.
TEST(NameService, BrokersWhoseNamesAreKnownAreUsedWhileItIsSilentForOthers)
{
    const Silence silence;
    Scene scene;
    const auto start = Clock::now();
    {
        outbox::ConsumerOptions options = scene.options();
        const std::string bootstrap = kafka().bootstrap();
        options.bootstrap_servers =
            "silent-broker:9092,slow-broker" + bootstrap.substr(bootstrap.rfind(':'));
        options.max_attempts = 1;
        slowly_answered = 0;
        RunningConsumer consumer(options, [](PGconn *, const outbox::Record &)
                                 { throw std::runtime_error("bad"); });
        scene.writer.write(scene.topic, "k", "{}", event_id(1));
        EXPECT_EQ(scene.dead_letters(1).size(), 1U);
        consumer.finish();
    }
    EXPECT_GT(slowly_answered, 0);
    EXPECT_LT(since(start), Milliseconds(20000)); // the producer of dead letters has ended, too
}
