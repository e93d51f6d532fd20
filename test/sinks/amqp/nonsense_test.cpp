// What no server may say: it is not believed, and ends a connection at most.
#include "fake_peers.h"

#include "support/seed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

namespace outbox::test
{

namespace
{

using testing::UnorderedElementsAre;

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
