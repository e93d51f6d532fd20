// What RabbitMQ, or whoever runs it, does to a connection. No message is given up for it, and none
// is lost.
#include "traffic.h"

#include "support/seed.h"
#include "support/workspace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

namespace outbox::test
{

namespace
{

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST(AmqpTrouble, ConnectionClosedByAnOperatorLosesNothing)
{
    Scene scene;
    AmqpDriver driver(scene.settings());
    Traffic traffic(scene, driver);
    ASSERT_TRUE(traffic.run_for(500));
    shared_server().close_connections("maintenance window");
    ASSERT_TRUE(traffic.run_until_trouble("CONNECTION_FORCED"));
    EXPECT_TRUE(driver.ear().has_trouble("maintenance window"));
    EXPECT_TRUE(driver.ear().troubles.front().summary);
    EXPECT_EQ(driver.ear().troubles.front().cls, FailureClass::retriable);
    ASSERT_TRUE(traffic.run_for(500));
    EXPECT_TRUE(driver.publisher().reachable(0));
    traffic.expect_all_there();
}

TEST(AmqpTrouble, KilledServerThatComesBackLosesNothing)
{
    Scene scene({}, kOutlivesCrashes);
    AmqpDriver driver(scene.settings());
    Traffic traffic(scene, driver);
    ASSERT_TRUE(traffic.run_for(500));
    shared_server().kill9();
    ASSERT_TRUE(traffic.run_until_trouble("cannot connect to 127.0.0.1"));
    EXPECT_FALSE(driver.publisher().reachable(0));
    shared_server().start();
    AmqpClient(shared_server().port()).declare_bound(scene.queue, scene.exchange, kOutlivesCrashes);
    ASSERT_TRUE(traffic.run_for(500));
    traffic.expect_all_there();
}

TEST(AmqpTrouble, ServerThatHangsIsNoticedByItsHeartbeats)
{
    Scene scene;
    AmqpDriver driver(scene.settings());
    Traffic traffic(scene, driver);
    ASSERT_TRUE(traffic.run_for(100));
    const auto begin = Clock::now();
    shared_server().pause();
    const bool noticed = traffic.run_until_trouble("HEARTBEAT_TIMEOUT");
    shared_server().resume();
    ASSERT_TRUE(noticed);
    EXPECT_LT(since(begin), Milliseconds(10000));
    ASSERT_TRUE(traffic.run_for(500));
    traffic.expect_all_there();
}

// A large message is half sent when the server hangs.
TEST(AmqpTrouble, ServerThatHangsInALargeMessageIsNoticedToo)
{
    Scene scene;
    AmqpDriver driver(scene.settings());
    (void) driver.produce("a", "first");
    ASSERT_TRUE(driver.serve_until_settled());
    shared_server().pause();
    for (int i = 0; i < 20; i++)
        (void) driver.produce("a", std::to_string(i), std::string(1000000, 'x'));
    const bool noticed = driver.serve_until_trouble("HEARTBEAT_TIMEOUT");
    shared_server().resume();
    ASSERT_TRUE(noticed);
    ASSERT_TRUE(driver.serve_until_settled());
    EXPECT_THAT(driver.ear().acked, SizeIs(21));
}

// Their messages have keys of their own, more of them than RabbitMQ keeps for a queue that hangs
// before it reads nothing more: the others get theirs all the same.
TEST(AmqpTrouble, QueuesThatHangHoldUpNoOther)
{
    const unsigned seed = choose_seed();
    std::mt19937 random(seed);
    const int queues = 4 + static_cast<int>(random() % 5);
    const int hung = 1 + static_cast<int>(random() % 3);
    Scene scene;
    AmqpClient &client = scene.client;
    std::vector<std::string> names;
    for (int i = 0; i < queues; i++)
    {
        names.push_back(unique_name("queue"));
        client.declare_queue(names.back());
        client.bind(names.back(), scene.exchange, "to" + std::to_string(i));
    }
    AmqpDriver driver(scene.settings());
    std::set<std::uint64_t> healthy;
    std::set<std::uint64_t> acked;
    int key = 0;
    const auto produce = [&](int each)
    {
        for (int i = 0; i < each * queues; i++)
        {
            const std::uint64_t tag =
                driver.produce("to" + std::to_string(i % queues), std::to_string(key++));
            if (i % queues >= hung)
                healthy.insert(tag);
        }
    };
    const auto healthy_there = [&]
    {
        acked.insert(driver.ear().acked.begin(), driver.ear().acked.end());
        return std::includes(acked.begin(), acked.end(), healthy.begin(), healthy.end());
    };
    produce(static_cast<int>(random() % 300));
    ASSERT_TRUE(driver.serve_until_settled());
    const auto tell = [&](const std::string &what)
    {
        for (int i = 0; i < hung; i++)
            shared_server().ctl(
                {"eval", "{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<\"/\">>, "
                         "queue, <<\"" +
                             names[static_cast<std::size_t>(i)] + "\">>)), sys:" + what +
                             "(amqqueue:get_pid(Q))."});
    };
    tell("suspend");
    for (int i = 0; i < 3; i++)
    {
        produce(700);
        EXPECT_TRUE(driver.serve_until(healthy_there, Milliseconds(25000))) << "part " << i;
    }
    EXPECT_GT(driver.publisher().outstanding(), 0u);
    tell("resume");
    EXPECT_TRUE(driver.serve_until_settled());
    EXPECT_THAT(driver.ear().refused, IsEmpty());
    for (const std::string &name : names)
        client.delete_queue(name);
}

class Alarm
{
public:
    explicit Alarm(const std::string &source)
        : end_("rabbit_alarm:clear_alarm({resource_limit, " + source + ", node()}).")
    {
        shared_server().eval("rabbit_alarm:set_alarm({{resource_limit, " + source +
                             ", node()}, []}).");
    }
    ~Alarm() { end(); }
    void end()
    {
        if (!end_.empty())
            shared_server().eval(end_);
        end_.clear();
    }

private:
    std::string end_;
};

void
expect_waits(const std::string &source, const std::string &word, std::size_t body)
{
    Scene scene;
    AmqpDriver driver(scene.settings());
    Traffic traffic(scene, driver);
    ASSERT_TRUE(traffic.run_for(100));
    ASSERT_TRUE(driver.serve_until_settled());
    Alarm alarm(source);
    if (body > 0)
        for (int i = 0; i < 10; i++)
            (void) driver.produce("large", std::to_string(i), std::string(body, 'x'));
    ASSERT_TRUE(traffic.run_until_trouble("BLOCKED"));
    EXPECT_TRUE(driver.ear().has_trouble(word));
    EXPECT_FALSE(driver.publisher().reachable(0));
    // It stays connected, longer than two heartbeats, and nothing is given up.
    const std::size_t troubles = driver.ear().troubles.size();
    EXPECT_FALSE(driver.serve_until_settled(Milliseconds(3500)));
    EXPECT_EQ(driver.ear().troubles.size(), troubles);
    alarm.end();
    ASSERT_TRUE(driver.serve_until_settled());
    EXPECT_TRUE(driver.ear().refused.empty());
    EXPECT_TRUE(driver.publisher().reachable(0));
}

TEST(AmqpTrouble, MemoryAlarmIsWaitedFor)
{
    expect_waits("memory", "memory", 0);
}

TEST(AmqpTrouble, DiskAlarmIsWaitedForInLargeMessagesToo)
{
    expect_waits("disk", "disk", 1000000);
}

TEST(AmqpTrouble, MissingExchangeIsWaitedFor)
{
    Scene scene;
    AmqpDriver driver(scene.settings());
    Traffic traffic(scene, driver);
    ASSERT_TRUE(traffic.run_for(100));
    scene.client.delete_exchange(scene.exchange);
    ASSERT_TRUE(traffic.run_until_trouble("NOT_FOUND"));
    EXPECT_TRUE(driver.ear().has_trouble("no exchange '" + scene.exchange + "'"));
    scene.client.declare_exchange(scene.exchange);
    scene.client.bind(scene.queue, scene.exchange);
    // Until it is bound what comes is refused.
    ASSERT_TRUE(driver.serve_until_settled());
    for (const Given &given : driver.ear().refused)
        EXPECT_TRUE(given.failure.consequence || given.failure.cls == FailureClass::event);
    (void) driver.produce("a", "last");
    ASSERT_TRUE(driver.serve_until_settled());
}

struct User
{
    explicit User(const std::string &write) : name(unique_name("user"))
    {
        shared_server().ctl({"add_user", name, "secret-of-it"});
        shared_server().ctl({"set_permissions", name, "", write, ".*"});
    }
    ~User() { shared_server().ctl({"delete_user", name}); }
    amqp::Settings settings(const Scene &scene) const
    {
        amqp::Settings settings = scene.settings();
        settings.username = name;
        settings.password = "secret-of-it";
        return settings;
    }
    const std::string name;
};

TEST(AmqpTrouble, RightThatIsMissingIsWaitedFor)
{
    Scene scene;
    const User user("^$");
    AmqpDriver driver(user.settings(scene));
    (void) driver.produce("a", "a");
    ASSERT_TRUE(driver.serve_until_trouble("ACCESS_REFUSED"));
    EXPECT_TRUE(driver.ear().has_trouble("exchange '" + scene.exchange + "' in vhost"));
    EXPECT_TRUE(driver.ear().refused.empty());
    shared_server().ctl({"set_permissions", user.name, "", ".*", ".*"});
    ASSERT_TRUE(driver.serve_until_settled());
    EXPECT_THAT(driver.ear().acked, SizeIs(1));
}

// RabbitMQ can allow routing keys; others flow.
TEST(AmqpTrouble, RoutingKeyThatIsNotAllowedIsTheTopicsTrouble)
{
    Scene scene;
    const User user(".*");
    shared_server().ctl({"set_topic_permissions", user.name, scene.exchange, "^allowed", ".*"});
    const amqp::Settings settings = user.settings(scene);
    AmqpDriver driver(settings);
    for (int i = 0; i < 30; i++)
        (void) driver.produce(i % 10 == 5 ? "forbidden" : "allowed.a", std::to_string(i));
    ASSERT_TRUE(driver.serve_until_settled());
    EXPECT_THAT(driver.ear().acked, SizeIs(27));
    ASSERT_THAT(driver.ear().refused, SizeIs(3));
    for (const Given &given : driver.ear().refused)
    {
        EXPECT_EQ(given.failure.cls, FailureClass::topic);
        EXPECT_THAT(given.failure.text, HasSubstr("access to topic 'forbidden'"));
    }
}

TEST(AmqpTrouble, WrongPasswordIsWaitedForAndNeverShown)
{
    Scene scene;
    amqp::Settings settings = scene.settings();
    settings.password = "wrong-and-secret";
    AmqpDriver driver(settings);
    ASSERT_TRUE(driver.serve_until_trouble("ACCESS_REFUSED"));
    EXPECT_FALSE(driver.ear().has_trouble("wrong-and-secret"));
}

// In any order, with a file that is missing, empty or half written in between.
TEST(AmqpTrouble, ChangedPasswordCountsFromTheNextConnection)
{
    const unsigned seed = choose_seed();
    std::mt19937 random(seed);
    const std::string user = unique_name("user");
    const std::filesystem::path file = run_dir() / unique_name("password");
    RabbitMqServer &server = shared_server();
    server.ctl({"add_user", user, "old"});
    server.ctl({"set_permissions", user, "", ".*", ""});
    for (const bool is_uri : {false, true})
    {
        const auto write = [&](const std::string &password) {
            write_file(file,
                       is_uri ? "amqp://" + user + ":" + password + "@127.0.0.1\r\n" : password);
        };
        server.ctl({"change_password", user, "old"});
        write("old");
        Scene scene;
        amqp::Settings settings = scene.settings();
        settings.username = user;
        settings.password = "old";
        settings.password_path = file;
        settings.password_uri = is_uri;
        AmqpDriver driver(settings);
        (void) driver.produce("a", "first");
        ASSERT_TRUE(driver.serve_until_settled());
        for (int i = 0; i < 3; i++)
        {
            const std::string password = "new" + std::to_string(i);
            const bool file_first = random() % 2 == 0;
            if (file_first)
                write(password);
            server.ctl({"change_password", user, password});
            server.close_connections("for a test");
            (void) driver.produce("a", std::to_string(i));
            if (!file_first)
            {
                ASSERT_TRUE(driver.serve_until_trouble("ACCESS_REFUSED"));
                for (const char *text : {"", "two\nlines\n", "\xef\xbb\xbfmark\n"})
                    if (random() % 2 == 0)
                        write_file(file, text);
                if (random() % 2 == 0)
                    std::filesystem::remove(file);
                (void) driver.serve_until([] { return false; }, Milliseconds(200));
                write(password);
            }
            ASSERT_TRUE(driver.serve_until_settled()) << "seed " << seed << ", change " << i;
            EXPECT_FALSE(driver.ear().has_trouble(password));
        }
        EXPECT_THAT(driver.ear().acked, SizeIs(4));
    }
    server.ctl({"delete_user", user});
}

TEST(AmqpTrouble, MissingVhostIsWaitedFor)
{
    Scene scene;
    amqp::Settings settings = scene.settings();
    settings.vhost = "nowhere";
    AmqpDriver driver(settings);
    ASSERT_TRUE(driver.serve_until_trouble("vhost nowhere not found"));
}

// RabbitMQ closes the channel, and does not say for which message.
TEST(AmqpTrouble, MessageForWhichTheChannelIsClosedIsFoundAmongTheOthers)
{
    Scene scene;
    AmqpDriver driver(scene.settings());
    std::set<std::uint64_t> poison;
    for (int i = 0; i < 200; i++)
    {
        const bool bad = i == 77 || i == 140;
        const std::uint64_t tag =
            driver.produce("a", std::to_string(i), bad ? std::string(2500000, 'x') : "");
        if (bad)
            poison.insert(tag);
    }
    ASSERT_TRUE(driver.serve_until_settled());
    EXPECT_THAT(driver.ear().acked, SizeIs(198));
    ASSERT_THAT(driver.ear().refused, SizeIs(2));
    for (const Given &given : driver.ear().refused)
    {
        EXPECT_EQ(poison.count(given.tag), 1u);
        EXPECT_EQ(given.failure.cls, FailureClass::event);
        EXPECT_STREQ(given.failure.name, "PRECONDITION_FAILED");
        EXPECT_TRUE(given.failure.too_large);
    }
    EXPECT_TRUE(driver.ear().troubles.empty());
}

} // namespace

} // namespace outbox::test
