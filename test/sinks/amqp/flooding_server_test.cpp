// A server that sends without an end.
#include "driver.h"
#include "fake_rabbit.h"

#include "test/support/times.h"

#include <gtest/gtest.h>

#include <atomic>
#include <pthread.h>
#include <utility>

namespace outbox::test
{

namespace
{

// To the end.
void
confirm_all(const Peer &peer)
{
    std::uint64_t number_ = 0;
    for (std::string id; peer.hear_message(id);)
        (void) peer.say(ack(++number_));
}

void
produce_three(AmqpDriver &driver)
{
    for (int i = 0; i < 3; i++)
        (void) driver.produce("a", std::to_string(i));
}

// librabbitmq would keep all that comes before the answer that it waits for.
TEST(AmqpFlood, ServerThatTalksInsteadOfAnsweringIsNotListenedTo)
{
    const std::string confirms = []
    {
        std::string many;
        for (std::uint64_t i = 0; i < 2000; i++)
            many += ack(i);
        return many;
    }();
    for (int at = 0; at < 6; at++)
    {
        std::atomic<std::size_t> sent{0};
        FakeRabbit server(
            [&](const Peer &peer, int number_)
            {
                bool heard = true;
                const auto talk = [&](int step)
                {
                    while (number_ == 0 && step == at && heard)
                    {
                        heard = peer.say(confirms);
                        sent += confirms.size();
                    }
                };
                if (peer.let_in(talk))
                    confirm_all(peer);
            });
        amqp::Settings settings = settings_for(server.port(), "x");
        settings.connect_timeout_ms = 2000;
        AmqpDriver driver(settings);
        produce_three(driver);
        EXPECT_TRUE(driver.serve_until_settled()) << at;
        EXPECT_EQ(driver.ear().acked.size(), 3u) << at;
        EXPECT_LT(sent, std::size_t{16} << 20) << at; // in the kernel's buffers
    }
}

// librabbitmq reads on as long as there are any.
TEST(AmqpFlood, EndlessHeartbeatsHoldNothingUpForGood)
{
    std::string beats;
    for (int i = 0; i < 20000; i++)
        beats += frame(8, 0, "");
    for (const bool logged_in : {true, false})
    {
        FakeRabbit server(
            [&](const Peer &peer, int number_)
            {
                if (number_ == 0 && !logged_in)
                    (void) peer.say(method(0, 10, 10,
                                           number(0, 1) + number(9, 1) + long_text("") +
                                               long_text("PLAIN") + long_text("en_US")));
                if ((number_ > 0 || logged_in) && !peer.let_in())
                    return;
                while (number_ == 0 && peer.say(beats))
                    ;
                confirm_all(peer);
            });
        amqp::Settings settings = settings_for(server.port(), "x");
        settings.connect_timeout_ms = 300;
        settings.confirm_timeout_ms = 1000; // if it is faster than they are
        AmqpDriver driver(settings);
        ASSERT_TRUE(wait_until(kLimit, [&] { return server.connections() == 1; }));
        produce_three(driver);
        EXPECT_TRUE(driver.serve_until_settled()) << logged_in;
        EXPECT_FALSE(driver.ear().troubles.empty()) << logged_in;
    }
}

// Whatever it is that RabbitMQ may say, it is not said without an end. Nobody serves but when the
// publisher asks for it.
TEST(AmqpFlood, ServerThatSaysMoreThanThereIsToSayIsLeft)
{
    const std::string blocked = method(0, 10, 60, short_text(std::string(200, 'x')));
    const std::string unblocked = method(0, 10, 61);
    const std::pair<const char *, std::string> floods[] = {
        {"alarms that come and go", times(500, blocked + unblocked)},
        {"alarms", times(500, blocked)},
        {"ends of alarms", times(5000, unblocked)},
        {"confirms of what is confirmed", times(2000, ack(1))},
        {"confirms of all up to there", times(2000, ack(1, true))},
        {"refusals of what is confirmed", times(2000, nack(1))},
        {"heartbeats", times(5000, frame(8, 0, ""))},
    };
    for (const auto &[name, flood] : floods)
    {
        std::atomic<std::size_t> sent{0};
        std::atomic<bool> left{false};
        const std::string &text = flood;
        FakeRabbit server(
            [&](const Peer &peer, int number_)
            {
                std::string id;
                if (!peer.let_in() || !peer.hear_message(id) || !peer.say(ack(1)))
                    return;
                while (number_ == 0 && peer.say(text))
                    sent += text.size();
                left = left || number_ == 0;
                for (std::uint64_t next = 2; peer.hear_message(id); next++)
                    (void) peer.say(ack(next));
            });
        AmqpDriver driver(settings_for(server.port(), "x"));
        (void) driver.produce("a", "1");
        ASSERT_TRUE(
            driver.serve_when_woken_until([&] { return left && !driver.ear().acked.empty(); }))
            << name;
        produce_three(driver);
        EXPECT_TRUE(
            driver.serve_when_woken_until([&] { return driver.publisher().outstanding() == 0; }))
            << name;
        EXPECT_FALSE(driver.ear().troubles.empty()) << name;
    }
}

// As many frames as there are messages, and those of bodies, are not too many.
TEST(AmqpFlood, EveryMessageMayComeBack)
{
    constexpr int kMany = 3000;
    const std::string body(20000, 'x');
    FakeRabbit server(
        [&](const Peer &peer, int)
        {
            if (!peer.let_in())
                return;
            std::uint64_t number_ = 0;
            for (std::string id; peer.hear_message(id);)
            {
                std::string said = back(id, "a", body.substr(0, 4000));
                // The size that its header names, and the rest.
                const std::size_t at = said.find(number(4000, 8));
                said.replace(at, 8, number(body.size(), 8));
                for (int i = 0; i < 4; i++)
                    said += frame(3, 1, body.substr(0, 4000));
                (void) peer.say(said + ack(++number_));
            }
        });
    AmqpDriver driver(settings_for(server.port(), "x"));
    for (int sent = 0; sent < kMany; sent += 100)
    {
        for (int i = 0; i < 100; i++)
            (void) driver.produce("a", std::to_string(sent + i), body);
        ASSERT_TRUE(driver.serve_until_settled());
    }
    EXPECT_EQ(driver.ear().refused.size(), static_cast<std::size_t>(kMany));
    EXPECT_EQ(server.connections(), 1);
}

// Tables within tables, as deep as a frame holds: librabbitmq goes down there by recursion.
TEST(AmqpFlood, DeepTablesNeedNoMoreStackThanThereIs)
{
    pthread_attr_t before;
    pthread_attr_t small;
    ASSERT_EQ(pthread_getattr_default_np(&before), 0);
    ASSERT_EQ(pthread_attr_init(&small), 0);
    ASSERT_EQ(pthread_attr_setstacksize(&small, std::size_t{2} << 20), 0);
    ASSERT_EQ(pthread_setattr_default_np(&small), 0); // as without a limit for stacks
    for (const bool array : {false, true})
        for (const bool in_header : {false, true})
        {
            const auto nested = [&](std::size_t most)
            {
                // From the inside out: a name, what it is, and how large.
                const std::size_t each = array ? 5 : 6;
                std::string begin;
                for (std::size_t left = most / each * each; left >= each; left -= each)
                    begin += (array ? std::string() : std::string(1, '\0')) + (array ? "A" : "F") +
                             number(left - each, 4);
                return array ? std::string(1, '\0') + begin : begin;
            };
            std::atomic<int> connections{0};
            FakeRabbit server(
                [&](const Peer &peer, int number_)
                {
                    connections++;
                    std::string greeting;
                    if (number_ == 0 && !in_header && peer.hear_bytes(greeting, 8))
                        return (void) peer.say(method(0, 10, 10,
                                                      number(9, 2) + long_text(nested(65000)) +
                                                          long_text("PLAIN") + long_text("en_US")));
                    std::string id;
                    if (!peer.let_in())
                        return;
                    if (number_ == 0 && in_header && peer.hear_message(id))
                    {
                        const std::string table = nested(130900);
                        (void) peer.say(method(1, 60, 50,
                                               number(312, 2) + short_text("") + short_text("x") +
                                                   short_text("a")) +
                                        frame(2, 1,
                                              number(60, 2) + number(0, 2) + number(0, 8) +
                                                  number(1 << 13, 2) + long_text(table)));
                        return;
                    }
                    confirm_all(peer);
                });
            AmqpDriver driver(settings_for(server.port(), "x"));
            produce_three(driver);
            EXPECT_TRUE(driver.serve_until_settled()) << array << in_header;
            EXPECT_EQ(driver.ear().acked.size(), 3u) << array << in_header;
            EXPECT_GE(connections, 2) << array << in_header;
        }
    (void) pthread_setattr_default_np(&before);
    (void) pthread_attr_destroy(&small);
    (void) pthread_attr_destroy(&before);
}

} // namespace

} // namespace outbox::test
