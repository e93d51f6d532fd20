// A name service that never answers.
#include <atomic>
#include <cstring>
#include <memory>
#include <thread>

#include <dlfcn.h>
#include <netdb.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/src/connect.h"
#include "client/src/name_lookup.h"
#include "harness.h"
#include "outbox/redis_dedup_store.h"
#include "support/process.h"
#include "support/tree.h"
#include "support/workspace.h"

using namespace outbox::test;
using outbox::v0::detail::Connector;
using outbox::v0::detail::NameLookup;
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

// Once for each place in the list they would take the time of all of them.
TEST(NameService, ANameThatIsThereSeveralTimesIsLookedUpOnce)
{
    const StopFlag never;
    const std::string port = std::to_string(cluster().port());
    Connector connector(cluster().conninfo("postgres") + " port=" + port +
                            " host=slow-twin,slow-twin,slow-twin",
                        "test");
    slowly_answered = 0;
    EXPECT_TRUE(connector.connect(never));
    EXPECT_EQ(slowly_answered, 1);
}

#ifndef __SANITIZE_THREAD__ // which does not follow a child that makes threads

// Whatever other threads look up just then.
TEST(NameService, AForkedProcessCanLookUpNames)
{
    std::atomic<bool> end{false};
    const auto look_up = [](const std::string &name)
    {
        const auto lookup = NameLookup::of(name, "1", {});
        return lookup->wait(Clock::now() + kSoon, nullptr) && lookup->take().error == 0;
    };
    std::vector<std::thread> others;
    for (const char *name : {"slow-a", "slow-b", "slow-c"})
        others.emplace_back(
            [&end, name]
            {
                while (!end)
                    (void) NameLookup::of(name, "1", {});
            });
    int failed = 0;
    for (int i = 0; i < 40 && failed == 0; ++i)
    {
        const pid_t child = fork();
        if (child == 0)
        {
            alarm(10); // it would be for ever
            _exit(look_up("127.0.0.1") && NameLookup::of("slow-child", "1", {}) ? 0 : 1);
        }
        int status = -1;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        failed += status == 0 ? 0 : 1;
    }
    end = true;
    for (std::thread &other : others)
        other.join();
    EXPECT_EQ(failed, 0);
}

// The library is linked into it, and one of its threads waits for the name service.
TEST(NameService, APluginThatIsClosedMeanwhileStaysLoaded)
{
    const std::string source = run_dir() / "plugin.cpp";
    const std::string plugin = run_dir() / "plugin.so";
    write_file(source, "#include <outbox/error.h>\n"
                       "#include <outbox/redis_dedup_store.h>\n"
                       "extern \"C\" bool ask()\n"
                       "{\n"
                       "    outbox::RedisOptions redis;\n"
                       "    redis.host = \"silent-plugin\";\n"
                       "    redis.ttl = redis.replay_window = std::chrono::hours(1);\n"
                       "    redis.timeout = std::chrono::milliseconds(100);\n"
                       "    try\n"
                       "    {\n"
                       "        outbox::RedisDedupStore(redis).claim(nullptr, \"c\", \"e\");\n"
                       "    }\n"
                       "    catch (const outbox::Error &)\n"
                       "    {\n"
                       "        return true;\n"
                       "    }\n"
                       "    return false;\n"
                       "}\n");
    // With symbols of templates that all share it would stay by itself.
    const std::string exports = run_dir() / "plugin.exports";
    write_file(exports, "{ global: ask; local: *; };\n");
    Command compile(
        {"sh", "-ec",
         "g++ -std=c++17 -shared -fPIC -Wl,--version-script=" + exports + " -o " + plugin + " -I" +
             in_source("client/include") + " -I\"$(pg_config --includedir)\" " + source + " " +
             in_build("client/liboutbox_client.a") + " -lpq -lrdkafka -lhiredis -ldl -pthread"});
    run_or_throw(compile, std::chrono::seconds(60));
    auto silence = std::make_unique<Silence>();
    void *handle = dlopen(plugin.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(handle, nullptr) << dlerror();
    const auto ask = reinterpret_cast<bool (*)()>(dlsym(handle, "ask"));
    ASSERT_NE(ask, nullptr);
    EXPECT_TRUE(ask());
    EXPECT_EQ(asked, 1);
    EXPECT_EQ(dlclose(handle), 0);
    handle = dlopen(plugin.c_str(), RTLD_NOW | RTLD_NOLOAD);
    ASSERT_NE(handle, nullptr) << "its thread comes back to code that is not there";
    silence.reset();
    EXPECT_EQ(dlclose(handle), 0);
}

#endif
