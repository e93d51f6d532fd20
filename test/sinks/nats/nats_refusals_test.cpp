// What Debian's nats-server refuses, and whose trouble that is.
#include "nats_fixture.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <nats/nats.h>

namespace outbox::test
{

namespace
{

// Somebody who answers whoever publishes on a subject.
class Responder
{
public:
    Responder(const std::string &url, const char *subject)
    {
        EXPECT_EQ(natsConnection_ConnectTo(&connection_, url.c_str()), NATS_OK);
        EXPECT_EQ(natsConnection_Subscribe(&subscription_, connection_, subject, answer, nullptr),
                  NATS_OK);
        EXPECT_EQ(natsConnection_Flush(connection_), NATS_OK);
    }
    ~Responder()
    {
        natsSubscription_Destroy(subscription_);
        natsConnection_Destroy(connection_);
    }

private:
    static void answer(natsConnection *connection, natsSubscription *, natsMsg *message, void *)
    {
        EXPECT_EQ(natsConnection_PublishString(connection, natsMsg_GetReply(message), "thanks"),
                  NATS_OK);
        natsMsg_Destroy(message);
    }

    natsConnection *connection_ = nullptr;
    natsSubscription *subscription_ = nullptr;
};

TEST_F(Nats, AMissingStreamHoldsUpItsSubjectOnly)
{
    NatsDriver driver(nats_settings(server.url()));
    driver.produce({"missing", "k", "1"});
    driver.produce({"missing", "k", "2"});
    driver.produce({"good", "k", "3"});
    ASSERT_TRUE(driver.until([&] { return driver.delivered_tags.size() == 1; }));
    ASSERT_TRUE(driver.until_empty());
    EXPECT_EQ(driver.failed_text(), "1:topic:NO_STREAM 2:topic:~ ");
    EXPECT_TRUE(driver.sink->reachable(0));
    driver.failures.clear();
    // At once, but for one that tries.
    for (int i = 0; i < 20; i++)
        driver.produce({"missing", "k" + std::to_string(i), "x"});
    ASSERT_TRUE(driver.until_empty());
    EXPECT_EQ(driver.failures.size(), 20U);
    server.add_stream({"LATE", {"missing"}});
    EXPECT_TRUE(driver.until(
        [&]
        {
            if (driver.sink->outstanding() == 0)
                driver.produce({"missing", "k", "4"});
            return driver.delivered_tags.size() >= 2;
        }));
    EXPECT_TRUE(driver.until_empty());
    EXPECT_GE(server.count("LATE"), 1U);
}

TEST_F(Nats, TheOneStreamIsMissingAndNothingIsGivenUp)
{
    nats::Settings settings = nats_settings(server.url());
    settings.stream = "ONE";
    NatsDriver driver(settings, 200);
    for (int i = 0; i < 50; i++)
        driver.produce(
            {"one." + std::to_string(i % 5), "k" + std::to_string(i % 7), std::to_string(i)});
    ASSERT_TRUE(driver.until([&] { return driver.troubles >= 3; }));
    EXPECT_EQ(driver.failed_text(), "");
    EXPECT_STREQ(driver.last_trouble.name, "STREAM_NOT_FOUND");
    EXPECT_FALSE(driver.sink->reachable(0));
    server.add_stream({"ONE", {"one.>"}});
    ASSERT_TRUE(driver.until_empty());
    EXPECT_EQ(driver.failed_text(), "");
    EXPECT_EQ(server.count("ONE"), 50U);
    EXPECT_TRUE(driver.sink->reachable(0));
}

TEST_F(Nats, AFullStreamIsItsSubjectsUnlessItIsTheOnlyOne)
{
    server.add_stream({"FULL", {"full.>"}, 10, -1, true});
    NatsDriver driver(nats_settings(server.url()));
    for (int i = 0; i < 12; i++)
        driver.produce({"full.x", "k" + std::to_string(i), std::to_string(i)});
    driver.produce({"good", "k", "1"});
    ASSERT_TRUE(driver.until_empty());
    EXPECT_EQ(driver.delivered_tags.size(), 11U);
    ASSERT_EQ(driver.failures.size(), 2U);
    EXPECT_EQ(driver.failures[0].second.cls, FailureClass::topic);
    EXPECT_STREQ(driver.failures[0].second.name, "STREAM_FULL");

    nats::Settings settings = nats_settings(server.url());
    settings.stream = "FULL";
    NatsDriver only(settings, 200);
    for (int i = 20; i < 25; i++)
        only.produce(
            {"full.x", "k" + std::to_string(i), std::to_string(i), "f" + std::to_string(i)});
    ASSERT_TRUE(only.until([&] { return only.troubles >= 3; }));
    EXPECT_EQ(only.failed_text(), "");
    EXPECT_STREQ(only.last_trouble.name, "STREAM_FULL");
    server.purge_stream("FULL");
    ASSERT_TRUE(only.until_empty());
    EXPECT_EQ(only.delivered_tags.size(), 5U);
    EXPECT_EQ(server.count("FULL"), 5U);
}

TEST_F(Nats, WhatIsTooLargeIsRefusedAlone)
{
    server.add_stream({"SMALL", {"small"}, -1, 1000, false});
    NatsDriver driver(nats_settings(server.url()));
    driver.produce({"small", "k", std::string(2000, 'x')});
    driver.produce({"small", "k", "behind"});
    driver.produce({"small", "other", "1"});
    driver.produce({"a.x", "large", std::string((1 << 20) + 1, 'x')});
    driver.produce({"a.x", "k", "1"});
    ASSERT_TRUE(driver.until_empty());
    EXPECT_EQ(driver.delivered_tags.size(), 2U) << driver.failed_text();
    ASSERT_EQ(driver.failures.size(), 3U) << driver.failed_text();
    std::sort(driver.failures.begin(), driver.failures.end(),
              [](const auto &one, const auto &other) { return one.first < other.first; });
    EXPECT_EQ(driver.failed_text(), "1:event:MESSAGE_TOO_LARGE 2:event:~ 4:event:MAX_PAYLOAD ");
    EXPECT_TRUE(driver.failures[0].second.too_large);
    EXPECT_EQ(driver.troubles, 0) << driver.texts;
}

TEST_F(Nats, ALimitThatWasRaisedIsFoundOut)
{
    NatsDriver driver(nats_settings(server.url()), 300, true);
    const std::string large((1 << 20) + 1, 'x');
    driver.produce({"a.x", "k", large});
    ASSERT_TRUE(driver.until_empty());
    EXPECT_EQ(driver.failures.size(), 1U);
    server.configure("max_payload: 4000000");
    EXPECT_TRUE(driver.until(
        [&]
        {
            if (driver.sink->outstanding() == 0)
                driver.produce({"a.x", "k", large});
            return driver.delivered_tags.size() == 1;
        }));
    EXPECT_EQ(driver.troubles, 0) << driver.texts;
}

TEST_F(Nats, SomebodyElsesAnswerIsNoAcknowledgement)
{
    Responder responder(server.url(), "service");
    NatsDriver driver(nats_settings(server.url()), 100);
    driver.produce({"service", "k", "1"});
    driver.produce({"good", "k", "2"});
    ASSERT_TRUE(driver.until_empty());
    EXPECT_EQ(driver.failed_text(), "1:topic:NO_ACKNOWLEDGEMENT ");
    EXPECT_EQ(driver.delivered_tags.size(), 1U);
}

TEST_F(Nats, ASubjectOfAnotherStreamThanTheOneIsRefused)
{
    server.add_stream({"OTHER", {"other"}});
    nats::Settings settings = nats_settings(server.url());
    settings.stream = "EVENTS";
    NatsDriver driver(settings, 100);
    driver.produce({"other", "k", "1"});
    driver.produce({"good", "k", "2"});
    ASSERT_TRUE(driver.until_empty());
    EXPECT_EQ(driver.failed_text(), "1:topic:WRONG_STREAM ");
    EXPECT_EQ(server.count("OTHER"), 0U);
}

} // namespace

} // namespace outbox::test
