// What the real one does seldom, or never.
#include "fake_peers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>

namespace outbox::test
{

namespace
{

using testing::ElementsAre;
using testing::SizeIs;
using testing::UnorderedElementsAre;

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

} // namespace

} // namespace outbox::test
