#include "scene.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outbox::test
{

namespace
{

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::SizeIs;
using testing::UnorderedElementsAre;

TEST(AmqpPublisher, MessageArrivesAsItWasGiven)
{
    Scene scene;
    AmqpDriver driver(scene.settings());
    const std::string value("{\"a\": \"\xC3\xA4\"}\0after", 16);
    const Header headers[] = {{"id", "0190163d-8694-739b-aea5-966c26f8ad91"},
                              {"event_type", "created"},
                              {"empty", ""},
                              {"null", "", true}};
    Record record;
    record.topic = "order.created";
    record.key = "customer-1";
    record.value = value.data();
    record.value_size = value.size();
    record.headers = headers;
    record.header_count = 4;
    record.timestamp_ms = 1700000000123;
    record.tag = 0xFEDCBA9876543210;
    Failure why;
    ASSERT_EQ(driver.publisher().produce(record, why), ProduceResult::queued) << why.text;
    EXPECT_EQ(driver.publisher().outstanding(), 1u);
    ASSERT_TRUE(driver.serve_until_settled());
    EXPECT_THAT(driver.ear().acked, ElementsAre(0xFEDCBA9876543210));

    const auto message = scene.client.get(scene.queue);
    ASSERT_TRUE(message);
    EXPECT_EQ(message->exchange, scene.exchange);
    EXPECT_EQ(message->routing_key, "order.created");
    EXPECT_EQ(message->body, value);
    EXPECT_EQ(message->id, "0190163d-8694-739b-aea5-966c26f8ad91");
    EXPECT_EQ(message->type, "created");
    EXPECT_EQ(message->delivery_mode, 2);
    EXPECT_EQ(message->timestamp, 1700000000u);
    // RabbitMQ 4 keeps them in another order.
    EXPECT_THAT(message->headers,
                UnorderedElementsAre(
                    Pair("key", "customer-1"), Pair("id", "0190163d-8694-739b-aea5-966c26f8ad91"),
                    Pair("event_type", "created"), Pair("empty", ""), Pair("null", std::nullopt)));
}

TEST(AmqpPublisher, TombstoneAndEmptyBodyAreDifferentThings)
{
    Scene scene;
    AmqpDriver driver(scene.settings());
    Record record;
    record.topic = "a";
    record.key = "key";
    record.tombstone = true;
    Failure why;
    ASSERT_EQ(driver.publisher().produce(record, why), ProduceResult::queued);
    record.tombstone = false;
    ASSERT_EQ(driver.publisher().produce(record, why), ProduceResult::queued);
    ASSERT_TRUE(driver.serve_until_settled());
    const auto messages = scene.client.get_all(scene.queue);
    ASSERT_THAT(messages, SizeIs(2));
    EXPECT_EQ(messages[0].header("tombstone"), "true");
    EXPECT_EQ(messages[1].header("tombstone"), "(none)");
}

TEST(AmqpPublisher, EventsOfAKeyKeepTheirOrder)
{
    constexpr int kKeys = 20;
    constexpr int kEvents = 2000;
    Scene scene;
    AmqpDriver driver(scene.settings());
    for (int i = 0; i < kEvents; i++)
        (void) driver.produce("a", std::to_string(i % kKeys));
    ASSERT_TRUE(driver.serve_until_settled());
    EXPECT_THAT(driver.ear().acked, SizeIs(kEvents));
    std::map<std::string, int> last;
    for (const AmqpMessage &message : scene.client.get_all(scene.queue))
    {
        EXPECT_LT(last[message.header("key")], std::stoi(message.body));
        last[message.header("key")] = std::stoi(message.body);
    }
    EXPECT_THAT(last, SizeIs(kKeys));
}

TEST(AmqpPublisher, LargeMessagesArriveWhole)
{
    Scene scene;
    AmqpDriver driver(scene.settings());
    std::vector<std::string> bodies;
    for (int i = 0; i < 8; i++)
        bodies.push_back(
            std::string(1000000 + static_cast<std::size_t>(i) * 4099, static_cast<char>('a' + i)));
    for (const std::string &body : bodies)
        (void) driver.produce("large", body.substr(0, 1), body);
    ASSERT_TRUE(driver.serve_until_settled());
    const auto messages = scene.client.get_all(scene.queue);
    ASSERT_THAT(messages, SizeIs(bodies.size()));
    for (std::size_t i = 0; i < bodies.size(); i++)
        EXPECT_TRUE(messages[i].body == bodies[i]) << i;
}

TEST(AmqpPublisher, UnroutableMessageIsRefusedAloneAndItsLaneWithIt)
{
    Scene scene;
    scene.client.declare_exchange("only." + scene.exchange);
    scene.client.bind(scene.queue, "only." + scene.exchange, "known");
    amqp::Settings settings = scene.settings();
    settings.exchange = "only." + scene.exchange;
    AmqpDriver driver(settings);
    for (int i = 0; i < 50; i++)
        (void) driver.produce("known", "k" + std::to_string(i));
    const std::uint64_t refused = driver.produce("unknown", "poison");
    const std::uint64_t behind = driver.produce("unknown", "poison");
    for (int i = 0; i < 50; i++)
        (void) driver.produce("known", "k" + std::to_string(i));
    ASSERT_TRUE(driver.serve_until_settled());
    EXPECT_THAT(driver.ear().acked, SizeIs(100));
    ASSERT_THAT(driver.ear().refused, SizeIs(2));
    EXPECT_EQ(driver.ear().refused[0].tag, refused);
    EXPECT_EQ(driver.ear().refused[0].failure.cls, FailureClass::event);
    EXPECT_STREQ(driver.ear().refused[0].failure.name, "NO_ROUTE");
    EXPECT_THAT(driver.ear().refused[0].failure.text, HasSubstr("\"unknown\""));
    EXPECT_EQ(driver.ear().refused[1].tag, behind);
    EXPECT_TRUE(driver.ear().refused[1].failure.consequence);
    EXPECT_EQ(scene.client.count(scene.queue), 100u);
    EXPECT_TRUE(driver.ear().troubles.empty());
    // The sink lives on, and takes the lane again.
    (void) driver.produce("known", "poison");
    ASSERT_TRUE(driver.serve_until_settled());
    EXPECT_THAT(driver.ear().acked, SizeIs(101));
}

// A large message comes back whole, in several frames.
TEST(AmqpPublisher, LargeUnroutableMessageIsRefused)
{
    Scene scene;
    scene.client.declare_exchange("none." + scene.exchange);
    amqp::Settings settings = scene.settings();
    settings.exchange = "none." + scene.exchange;
    AmqpDriver driver(settings);
    (void) driver.produce("a", "a", std::string(1000000, 'x'));
    (void) driver.produce("a", "b");
    ASSERT_TRUE(driver.serve_until_settled());
    EXPECT_THAT(driver.ear().refused, SizeIs(2));
    EXPECT_TRUE(driver.ear().troubles.empty());
}

TEST(AmqpPublisher, WithoutMandatoryNobodyHasToGetIt)
{
    Scene scene;
    scene.client.declare_exchange("none." + scene.exchange);
    amqp::Settings settings = scene.settings();
    settings.exchange = "none." + scene.exchange;
    settings.mandatory = false;
    AmqpDriver driver(settings);
    (void) driver.produce("a", "a");
    ASSERT_TRUE(driver.serve_until_settled());
    EXPECT_THAT(driver.ear().acked, SizeIs(1));
}

TEST(AmqpPublisher, AlternateExchangeTakesWhatHasNoOtherQueue)
{
    Scene scene;
    scene.client.declare_exchange("first." + scene.exchange, "topic",
                                  {{"alternate-exchange", scene.exchange}});
    amqp::Settings settings = scene.settings();
    settings.exchange = "first." + scene.exchange;
    AmqpDriver driver(settings);
    (void) driver.produce("a", "a");
    ASSERT_TRUE(driver.serve_until_settled());
    EXPECT_THAT(driver.ear().acked, SizeIs(1));
    EXPECT_EQ(scene.client.count(scene.queue), 1u);
}

TEST(AmqpPublisher, QuorumQueueConfirmsAndKeepsOrder)
{
    Scene scene(AmqpClient::Arguments{{"x-queue-type", "quorum"}});
    AmqpDriver driver(scene.settings());
    for (int i = 0; i < 300; i++)
        (void) driver.produce("a", std::to_string(i % 7));
    ASSERT_TRUE(driver.serve_until_settled());
    EXPECT_THAT(driver.ear().acked, SizeIs(300));
    std::map<std::string, int> last;
    for (const AmqpMessage &message : scene.client.get_all(scene.queue))
    {
        EXPECT_LT(last[message.header("key")], std::stoi(message.body));
        last[message.header("key")] = std::stoi(message.body);
    }
}

// RabbitMQ says no (basic.nack) while the queue is full.
TEST(AmqpPublisher, WhatAFullQueueDoesNotTakeIsTheTopicsTrouble)
{
    Scene scene(AmqpClient::Arguments{{"x-max-length", "2"}, {"x-overflow", "reject-publish"}});
    AmqpDriver driver(scene.settings());
    for (int i = 0; i < 2; i++)
        (void) driver.produce("a", std::to_string(i));
    ASSERT_TRUE(driver.serve_until_settled());
    const std::uint64_t third = driver.produce("a", "third");
    (void) driver.produce("a", "third");
    ASSERT_TRUE(driver.serve_until_settled());
    ASSERT_THAT(driver.ear().refused, SizeIs(2));
    EXPECT_EQ(driver.ear().refused[0].tag, third);
    EXPECT_EQ(driver.ear().refused[0].failure.cls, FailureClass::topic);
    EXPECT_STREQ(driver.ear().refused[0].failure.name, "NACK");
    EXPECT_TRUE(driver.ear().refused[1].failure.consequence);
}

TEST(AmqpPublisher, WhatAFullQueueTakesAfterAWhileHasNotFailed)
{
    Scene scene(AmqpClient::Arguments{{"x-max-length", "1"}, {"x-overflow", "reject-publish"}});
    amqp::Settings settings = scene.settings();
    settings.backoff_initial_ms = 400;
    AmqpDriver driver(settings);
    (void) driver.produce("a", "first");
    ASSERT_TRUE(driver.serve_until_settled());
    (void) driver.produce("a", "second");
    EXPECT_FALSE(driver.serve_until_settled(Milliseconds(150)));
    (void) scene.client.get(scene.queue);
    ASSERT_TRUE(driver.serve_until_settled());
    EXPECT_THAT(driver.ear().acked, SizeIs(2));
    EXPECT_TRUE(driver.ear().refused.empty());
}

TEST(AmqpPublisher, QueueIsBounded)
{
    amqp::Settings settings = settings_for(1, "");
    settings.max_messages = 3;
    AmqpDriver driver(settings);
    for (int i = 0; i < 3; i++)
        (void) driver.produce("a", "a");
    EXPECT_ANY_THROW((void) driver.produce("a", "b"));
}

TEST(AmqpPublisher, PurgeGivesUpAllWithoutAReason)
{
    AmqpDriver driver(settings_for(1, ""));
    for (int i = 0; i < 10; i++)
        (void) driver.produce("a", std::to_string(i % 3));
    driver.publisher().purge();
    ASSERT_TRUE(driver.serve_until_settled());
    ASSERT_THAT(driver.ear().refused, SizeIs(10));
    for (const Given &given : driver.ear().refused)
        EXPECT_TRUE(given.failure.consequence);
}

TEST(AmqpPublisher, WhatHasNoFormInAmqpIsRefusedAtOnce)
{
    AmqpDriver driver(settings_for(1, ""));
    Record record;
    const std::string name(256, 'n');
    const Header header = {name, "value"};
    record.topic = "a";
    record.headers = &header;
    record.header_count = 1;
    Failure why;
    EXPECT_EQ(driver.publisher().produce(record, why), ProduceResult::failed);
    EXPECT_EQ(why.cls, FailureClass::event);
    EXPECT_STREQ(why.name, "HEADER_NAME_TOO_LONG");
}

TEST(AmqpPublisher, HeadersThatFitInNoFrameAreTheEvents)
{
    Scene scene;
    AmqpDriver driver(scene.settings());
    const std::string value(140000, 'v');
    const Header header = {"long", value};
    Record record;
    record.topic = "a";
    record.key = "long";
    record.headers = &header;
    record.header_count = 1;
    record.tag = 77;
    Failure why;
    ASSERT_EQ(driver.publisher().produce(record, why), ProduceResult::queued);
    (void) driver.produce("a", "other");
    ASSERT_TRUE(driver.serve_until_settled());
    ASSERT_THAT(driver.ear().refused, SizeIs(1));
    EXPECT_EQ(driver.ear().refused[0].tag, 77u);
    EXPECT_STREQ(driver.ear().refused[0].failure.name, "HEADERS_TOO_LARGE");
    EXPECT_THAT(driver.ear().acked, SizeIs(1));
}

} // namespace

} // namespace outbox::test
