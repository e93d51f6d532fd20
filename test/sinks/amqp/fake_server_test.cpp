// What the real one does seldom, or never.
#include "driver.h"
#include "fake_rabbit.h"

#include "support/seed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <random>
#include <set>

namespace outbox::test
{

namespace
{

using testing::ElementsAre;
using testing::SizeIs;
using testing::UnorderedElementsAre;

// Hears so many messages.
std::vector<std::string>
hear_messages(const Peer &peer, std::size_t count)
{
    std::vector<std::string> ids;
    for (std::string id; ids.size() < count && peer.hear_message(id);)
        ids.push_back(id);
    return ids;
}

// To the end.
void
ack_all(const Peer &peer)
{
    std::uint64_t number = 0;
    for (std::string id; peer.hear_message(id);)
        (void) peer.say(ack(++number));
}

void
produce_each_key(AmqpDriver &driver, int count)
{
    for (int i = 0; i < count; i++)
        (void) driver.produce("a", std::to_string(i));
}

TEST(AmqpFake, ConfirmsOfManyAndInAnyOrderCountOnce)
{
    FakeRabbit server(
        [](const Peer &peer, int)
        {
            if (!peer.let_in())
                return;
            (void) hear_messages(peer, 10);
            (void) peer.say(ack(4) + ack(3, true) + ack(3, true) + ack(7) + ack(2) + ack(9, true));
            (void) peer.say(ack(0, true));
            ack_all(peer);
        });
    AmqpDriver driver(settings_for(server.port(), "x"));
    produce_each_key(driver, 10);
    ASSERT_TRUE(driver.serve_until_settled());
    EXPECT_THAT(driver.ear().acked, UnorderedElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
    EXPECT_TRUE(driver.ear().troubles.empty());
}

TEST(AmqpFake, NacksOfManyAreTriedAgain)
{
    FakeRabbit server(
        [](const Peer &peer, int)
        {
            if (!peer.let_in())
                return;
            (void) hear_messages(peer, 6);
            (void) peer.say(ack(2) + nack(4, true) + ack(6, true));
            (void) hear_messages(peer, 3);
            (void) peer.say(ack(9, true));
            ack_all(peer);
        });
    AmqpDriver driver(settings_for(server.port(), "x"));
    produce_each_key(driver, 6);
    ASSERT_TRUE(driver.serve_until_settled());
    EXPECT_THAT(driver.ear().acked, UnorderedElementsAre(1, 2, 3, 4, 5, 6));
    EXPECT_TRUE(driver.ear().refused.empty());
}

TEST(AmqpFake, WhatCameBackIsRefusedWhateverConfirmsIt)
{
    FakeRabbit server(
        [](const Peer &peer, int)
        {
            if (!peer.let_in())
                return;
            (void) hear_messages(peer, 6);
            (void) peer.say(back("2", "a") + back("5", "a", "body") + ack(3, true) + nack(5) +
                            ack(6, true));
            ack_all(peer);
        });
    AmqpDriver driver(settings_for(server.port(), "x"));
    produce_each_key(driver, 6);
    ASSERT_TRUE(driver.serve_until_settled());
    EXPECT_THAT(driver.ear().acked, UnorderedElementsAre(1, 3, 4, 6));
    ASSERT_THAT(driver.ear().refused, SizeIs(2));
    EXPECT_EQ(driver.ear().refused[0].tag, 2u);
    EXPECT_EQ(driver.ear().refused[1].tag, 5u);
    for (const Given &given : driver.ear().refused)
        EXPECT_EQ(given.failure.cls, FailureClass::event);
}

// The connection is given up, and all is sent again over another.
void
expect_disbelief(const std::string &nonsense)
{
    FakeRabbit server(
        [&](const Peer &peer, int connection)
        {
            if (!peer.let_in())
                return;
            if (connection > 0)
                return ack_all(peer);
            (void) hear_messages(peer, 3);
            (void) peer.say(nonsense);
            std::string id;
            while (peer.hear_message(id))
                ;
        });
    AmqpDriver driver(settings_for(server.port(), "x"));
    produce_each_key(driver, 3);
    ASSERT_TRUE(driver.serve_until_settled());
    EXPECT_THAT(driver.ear().acked, UnorderedElementsAre(1, 2, 3));
    EXPECT_FALSE(driver.ear().troubles.empty());
    EXPECT_EQ(server.connections(), 2);
}

TEST(AmqpFake, ConfirmOfWhatWasNotSentIsNotBelieved)
{
    expect_disbelief(ack(4));
    expect_disbelief(ack(0xFFFFFFFFFFFFFFFF, true));
    expect_disbelief(nack(0));
}

TEST(AmqpFake, ReturnOfWhatWasNotSentIsNotBelieved)
{
    expect_disbelief(back("7", "a"));
    expect_disbelief(back("1", "b"));
}

TEST(AmqpFake, WhatBelongsToNothingIsNotBelieved)
{
    expect_disbelief(frame(3, 1, "body"));
    expect_disbelief(ack(1).replace(1, 2, number(7, 2)));
    expect_disbelief(method(1, 60, 60));
    expect_disbelief(method(0, 10, 99));
    expect_disbelief(method(1, 60, 50, "\x01"));
    // Of a message that comes back there is no body but its own.
    expect_disbelief(back("1", "a", "body") + frame(3, 1, "more"));
}

TEST(AmqpFake, MessagesThatAreNeverConfirmedAreSentAgain)
{
    FakeRabbit server(
        [](const Peer &peer, int connection)
        {
            if (!peer.let_in())
                return;
            std::string id;
            if (connection > 0)
                return ack_all(peer);
            while (peer.hear_message(id))
                ;
        });
    amqp::Settings settings = settings_for(server.port(), "x");
    settings.heartbeat_s = 30;
    settings.confirm_timeout_ms = 300;
    AmqpDriver driver(settings);
    produce_each_key(driver, 5);
    ASSERT_TRUE(driver.serve_until_settled());
    EXPECT_TRUE(driver.ear().has_trouble("CONFIRM_TIMEOUT"));
    EXPECT_THAT(driver.ear().acked, SizeIs(5));
}

// In an alarm RabbitMQ reads nothing, however long that takes; and it gets nothing more.
TEST(AmqpFake, AlarmIsNoTimeToWaitForConfirms)
{
    std::atomic<bool> over{false};
    FakeRabbit server(
        [&](const Peer &peer, int)
        {
            if (!peer.let_in())
                return;
            (void) hear_messages(peer, 5);
            (void) peer.say(method(0, 10, 60, short_text("low on memory")));
            EXPECT_TRUE(wait_until(kLimit, [&] { return over.load(); }));
            (void) peer.say(method(0, 10, 61) + ack(5, true));
            (void) hear_messages(peer, 1);
            (void) peer.say(ack(6));
            ack_all(peer);
        });
    amqp::Settings settings = settings_for(server.port(), "x");
    settings.heartbeat_s = 30;
    settings.confirm_timeout_ms = 200;
    AmqpDriver driver(settings);
    produce_each_key(driver, 5);
    ASSERT_TRUE(driver.serve_until_trouble("BLOCKED: RabbitMQ takes no messages at present: low"));
    (void) driver.produce("a", "later");
    EXPECT_FALSE(driver.serve_until_settled(Milliseconds(1500)));
    EXPECT_FALSE(driver.publisher().reachable(0));
    over = true;
    ASSERT_TRUE(driver.serve_until_settled());
    EXPECT_THAT(driver.ear().acked, SizeIs(6));
    EXPECT_THAT(driver.ear().troubles, SizeIs(1));
    EXPECT_EQ(server.connections(), 1);
}

// It may be the server's fault once or twice.
TEST(AmqpFake, MessageThatBreaksTheServerAgainAndAgainIsRefused)
{
    FakeRabbit server(
        [](const Peer &peer, int)
        {
            if (!peer.let_in())
                return;
            std::uint64_t number = 0;
            for (std::string id; peer.hear_message(id);)
            {
                number++;
                if (id == "4")
                {
                    (void) peer.say(close_connection(541, "INTERNAL_ERROR"));
                    while (peer.hear_message(id))
                        ;
                    return;
                }
                (void) peer.say(ack(number));
            }
        });
    AmqpDriver driver(settings_for(server.port(), "x"));
    produce_each_key(driver, 20);
    ASSERT_TRUE(driver.serve_until_settled());
    ASSERT_THAT(driver.ear().refused, SizeIs(1));
    EXPECT_EQ(driver.ear().refused[0].tag, 4u);
    EXPECT_EQ(driver.ear().refused[0].failure.cls, FailureClass::event);
    EXPECT_THAT(driver.ear().acked, SizeIs(19));
}

TEST(AmqpFake, PasswordThatTheServerRepeatsIsNotShown)
{
    FakeRabbit server(
        [](const Peer &peer, int)
        {
            if (peer.let_in())
                (void) peer.say(close_connection(320, "the password is open-sesame\x1b[2J"));
            Frame ignored;
            while (peer.hear(ignored))
                ;
        });
    amqp::Settings settings = settings_for(server.port(), "x");
    settings.password = "open-sesame";
    AmqpDriver driver(settings);
    ASSERT_TRUE(driver.serve_until_trouble("the password is ***?[2J"));
    EXPECT_FALSE(driver.ear().has_trouble("open-sesame"));
}

// Wherever it may speak, and whatever characters the password has.
TEST(AmqpFake, PasswordIsNotShownWhereverTheServerRepeatsIt)
{
    const std::function<void(const Peer &, const std::string &)> places[] = {
        [](const Peer &peer, const std::string &said)
        { (void) peer.say(close_connection(320, said)); },
        [](const Peer &peer, const std::string &said)
        { (void) peer.say(close_channel(404, said)); },
        [](const Peer &peer, const std::string &said)
        { (void) peer.say(method(0, 10, 60, short_text(said))); },
        [](const Peer &peer, const std::string &said)
        {
            for (const std::string &id : hear_messages(peer, 1))
                (void) peer.say(close_channel(311, id + said));
        },
        [](const Peer &peer, const std::string &said)
        {
            for (const std::string &id : hear_messages(peer, 1))
                (void) peer.say(back(id, "a", "", said) + ack(1));
        },
        [](const Peer &peer, const std::string &said)
        {
            for (const std::string &id : hear_messages(peer, 1))
                (void) peer.say(back(id, "a", "", "", said) + ack(1));
        },
    };
    for (const std::string password : {"open-sesame",
                                       "\xc3\xb6pen\tses\x7f"
                                       "ame",
                                       "sesa"})
        for (std::size_t place = 0; place < std::size(places); place++)
        {
            FakeRabbit server(
                [&](const Peer &peer, int)
                {
                    if (peer.let_in())
                        places[place](peer, "it is " + password + " and " + password);
                    Frame ignored;
                    while (peer.hear(ignored))
                        ;
                });
            amqp::Settings settings = settings_for(server.port(), "x");
            settings.password = password;
            AmqpDriver driver(settings);
            produce_each_key(driver, 1);
            const auto shown = [&]
            {
                std::string all;
                for (const Failure &failure : driver.ear().troubles)
                    all += std::string(failure.text) + failure.hint;
                for (const Given &given : driver.ear().refused)
                    all += std::string(given.failure.text) + given.failure.hint;
                return all;
            };
            ASSERT_TRUE(driver.serve_until(
                [&] { return shown().find("it is *** and ***") != std::string::npos; }))
                << place << shown();
            EXPECT_EQ(shown().find("sesa"), std::string::npos) << place << shown();
            EXPECT_EQ(shown().find("pen"), std::string::npos) << place << shown();
        }
}

TEST(AmqpFake, MuteServerKeepsNobodyFromClosing)
{
    FakeRabbit server(
        [](const Peer &peer, int)
        {
            Frame ignored;
            while (peer.hear(ignored))
                ;
        });
    AmqpDriver driver(settings_for(server.port(), "x"));
    produce_each_key(driver, 3);
    ASSERT_TRUE(wait_until(kLimit, [&] { return server.connections() == 1; }));
    const auto begin = Clock::now();
    (void) driver.publisher().close(100);
    EXPECT_LT(since(begin), Milliseconds(2000));
}

// Frames that are nearly right.
class Nonsense
{
public:
    explicit Nonsense(std::uint64_t seed) : random_(seed) {}

    std::string operator()()
    {
        std::string text;
        switch (pick(8))
        {
        case 0:
            return bytes(pick(64));
        case 1:
            text = method(pick(3), 10 * pick(10), pick(130), bytes(pick(40)));
            break;
        case 2:
            text = back(std::to_string(pick(30)), pick(2) == 0 ? "a" : "b",
                        std::string(static_cast<std::size_t>(pick(100)), 'x'));
            break;
        case 3:
            text = frame(pick(10), pick(3), bytes(pick(200)));
            break;
        case 4:
            text = close_channel(pick(600), bytes(pick(100)));
            break;
        case 5:
            text = close_connection(pick(600), bytes(pick(100)));
            break;
        case 6:
            text = method(0, 10, 60, short_text(bytes(pick(20)))) + method(0, 10, 61);
            break;
        default:
            text = pick(2) == 0 ? ack(static_cast<std::uint64_t>(pick(40)), pick(2) == 0)
                                : nack(static_cast<std::uint64_t>(pick(40)), pick(2) == 0);
        }
        if (pick(3) == 0 && !text.empty())
            text[static_cast<std::size_t>(pick(static_cast<int>(text.size())))] =
                static_cast<char>(pick(256));
        if (pick(6) == 0)
            text.resize(static_cast<std::size_t>(pick(static_cast<int>(text.size()) + 1)));
        return text;
    }
    int pick(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }

private:
    std::string bytes(int count)
    {
        std::string text;
        for (int i = 0; i < count; i++)
            text += static_cast<char>(pick(256));
        return text;
    }

    std::mt19937_64 random_;
};

TEST(AmqpFake, NonsenseOfAnyKindEndsAConnectionAtMost)
{
    constexpr int kHostile = 400;
    constexpr int kMessages = 40;
    const std::uint64_t seed = choose_seed();
    SCOPED_TRACE(seed);
    FakeRabbit server(
        [&](const Peer &peer, int connection)
        {
            Nonsense nonsense(seed + static_cast<std::uint64_t>(connection));
            const bool hostile = connection < kHostile;
            const int at = hostile ? nonsense.pick(20) : 100;
            const auto between = [&](int step)
            {
                if (step == at)
                    (void) peer.say(nonsense());
            };
            if (!peer.let_in(between))
                return;
            if (!hostile)
                return ack_all(peer);
            std::uint64_t number = 0;
            for (int i = nonsense.pick(20); i > 0; i--)
                (void) peer.say(nonsense.pick(3) == 0 ? ack(++number) : nonsense());
        });
    amqp::Settings settings = settings_for(server.port(), "x");
    settings.connect_timeout_ms = 200;
    settings.backoff_initial_ms = settings.backoff_max_ms = 1;
    settings.window = 7;
    AmqpDriver driver(settings);
    int sent = 0;
    const auto go_on = [&]
    {
        while (driver.publisher().outstanding() < kMessages)
        {
            (void) driver.produce(sent % 5 == 0 ? "b" : "a", std::to_string(sent % 31));
            sent++;
        }
        return server.connections() > kHostile;
    };
    ASSERT_TRUE(driver.serve_until(go_on, Milliseconds(120000)));
    ASSERT_TRUE(driver.serve_until_settled());
    std::multiset<std::uint64_t> told(driver.ear().acked.begin(), driver.ear().acked.end());
    for (const Given &given : driver.ear().refused)
        told.insert(given.tag);
    EXPECT_EQ(told.size(), static_cast<std::size_t>(sent));
    EXPECT_EQ(std::set<std::uint64_t>(told.begin(), told.end()).size(), told.size());
}

} // namespace

} // namespace outbox::test
