// The sink on Debian's nats-server.
#include "support/driver.h"
#include "support/nats_server.h"

#include "test/support/process.h"
#include "test/support/seed.h"
#include "test/support/workspace.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <nats/nats.h>
#include <random>
#include <set>
#include <thread>

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

class Nats : public testing::Test
{
protected:
    Nats()
    {
        server.start();
        server.add_stream({"EVENTS", {"a.>", "good"}});
    }

    NatsServer server;
};

// Of each key: the values in the order in which the stream has them, repeats left out.
std::map<std::string, std::vector<std::string>>
by_key(const std::vector<NatsMessage> &messages)
{
    std::map<std::string, std::vector<std::string>> values;
    std::set<std::string> seen;
    for (const NatsMessage &message : messages)
        if (seen.insert(message.headers.at("id")).second)
            values[message.headers.at("Outbox-Key")].push_back(message.value);
    return values;
}

TEST_F(Nats, AnEventArrivesWithItsKeyItsIdAndItsHeaders)
{
    nats::Settings settings = nats_settings(server.url(), "a.{event_type}.{key}");
    settings.stream = "EVENTS";
    NatsDriver driver(settings);
    driver.produce(
        {"topic", "k 1", R"({"a": 1})", "0198", {{"x", "1%\r\n2 "}, {"e", ""}, {"y z", " "}}});
    driver.produce({"topic", "k.2", "", "0199", {}, true});
    ASSERT_TRUE(driver.until_empty()) << driver.texts;
    EXPECT_EQ(driver.delivered_tags.size(), 2U) << driver.failed_text();
    std::vector<NatsMessage> messages = server.messages("EVENTS");
    ASSERT_EQ(messages.size(), 2U);
    std::sort(messages.begin(), messages.end(),
              [](const auto &one, const auto &other) { return one.subject < other.subject; });
    EXPECT_EQ(messages[0].subject, "a.t.made.k%201");
    EXPECT_EQ(messages[0].value, R"({"a": 1})");
    auto headers = messages[0].headers;
    EXPECT_EQ(headers["Nats-Msg-Id"], "0198");
    EXPECT_EQ(headers["Outbox-Key"], "k 1");
    EXPECT_EQ(headers["id"], "0198");
    EXPECT_EQ(headers["event_type"], "t.made");
    EXPECT_EQ(headers["x"], "1%25%0D%0A2%20");
    EXPECT_EQ(headers["y%20z"], "%20");
    EXPECT_EQ(headers.count("e"), 0U);
    EXPECT_EQ(headers.count("Outbox-Tombstone"), 0U);
    EXPECT_EQ(messages[1].subject, "a.t.made.k%2E2");
    EXPECT_EQ(messages[1].headers["Outbox-Tombstone"], "true");
}

TEST_F(Nats, ARepeatIsOneMessageAndAReplayIsAnother)
{
    NatsDriver driver(nats_settings(server.url()));
    driver.produce({"a.x", "k", "1", "id-7"});
    driver.produce({"a.x", "k", "1", "id-7"});
    driver.produce({"a.x", "k", "1", "id-7", {{"replay_id", "3"}}});
    ASSERT_TRUE(driver.until_empty());
    EXPECT_EQ(driver.delivered_tags.size(), 3U);
    const std::vector<NatsMessage> messages = server.messages("EVENTS");
    ASSERT_EQ(messages.size(), 2U);
    EXPECT_EQ(messages[1].headers.at("Nats-Msg-Id"), "id-7/3");
}

TEST_F(Nats, NoEventGivesOrdersToTheServer)
{
    NatsDriver driver(nats_settings(server.url()));
    driver.produce({"a.x", "k", "1"});
    for (const char *name : {"Nats-Rollup", "nats-expected-last-sequence", "Outbox-Key"})
    {
        EXPECT_EQ(driver.try_produce({"a.x", "k", "2", "", {{name, "all"}}}),
                  ProduceResult::failed);
        EXPECT_EQ(driver.last_failure.cls, FailureClass::event);
        EXPECT_STREQ(driver.last_failure.name, "RESERVED_HEADER");
    }
    ASSERT_TRUE(driver.until_empty());
    EXPECT_EQ(server.count("EVENTS"), 1U);
}

TEST_F(Nats, TheServerIsKilledAndOrderIsKept)
{
    const unsigned seed = choose_seed();
    std::mt19937 random(seed);
    NatsDriver driver(nats_settings(server.url()));
    constexpr int kEvents = 4000;
    constexpr int kKeys = 40;
    std::map<std::string, std::vector<std::string>> expected;
    for (int i = 0; i < kEvents; i++)
    {
        const std::string key = "k" + std::to_string(random() % kKeys);
        driver.produce({"a." + key, key, std::to_string(i)});
        expected[key].push_back(std::to_string(i));
        if (i % 1000 == 500)
        {
            server.kill9();
            driver.serve(0);
            server.start();
        }
        driver.serve(0);
    }
    ASSERT_TRUE(driver.until_empty(30000)) << driver.texts;
    EXPECT_EQ(driver.failed_text(), "");
    EXPECT_EQ(driver.delivered_tags.size(), static_cast<size_t>(kEvents));
    EXPECT_EQ(by_key(server.messages("EVENTS")), expected);
    EXPECT_GT(driver.troubles, 0);
    EXPECT_TRUE(driver.last_trouble.summary);
    EXPECT_EQ(driver.last_trouble.cls, FailureClass::retriable);
}

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

TEST(NatsWithoutJetStream, NothingIsGivenUp)
{
    NatsServer server("", false);
    server.start();
    NatsDriver driver(nats_settings(server.url()), 200);
    for (int i = 0; i < 10; i++)
        driver.produce({"a." + std::to_string(i), "k", std::to_string(i)});
    ASSERT_TRUE(driver.until([&] { return driver.troubles >= 3; }));
    EXPECT_EQ(driver.failed_text(), "");
    EXPECT_STREQ(driver.last_trouble.name, "NO_JETSTREAM");
    EXPECT_FALSE(driver.sink->reachable(0));
    server.stop();
    server.configure("", true);
    server.start();
    server.add_stream({"EVENTS", {"a.>"}});
    ASSERT_TRUE(driver.until_empty(20000)) << driver.texts;
    EXPECT_EQ(driver.failed_text(), "");
    EXPECT_EQ(server.count("EVENTS"), 10U);
}

TEST_F(Nats, WhatIsOutstandingIsBounded)
{
    server.process().pause();
    nats::Settings settings = nats_settings(server.url());
    settings.max_records = 10;
    settings.max_bytes = 20000;
    NatsDriver driver(settings);
    for (int i = 0; i < 10; i++)
        EXPECT_EQ(driver.try_produce({"a.x", "k", "1"}), ProduceResult::queued);
    EXPECT_EQ(driver.try_produce({"a.x", "k", "1"}), ProduceResult::queue_full);
    server.process().resume();
    ASSERT_TRUE(driver.until_empty());
    // A larger one goes alone.
    EXPECT_EQ(driver.try_produce({"a.x", "k", std::string(50000, 'x')}), ProduceResult::queued);
    EXPECT_EQ(driver.try_produce({"a.x", "k", "1"}), ProduceResult::queue_full);
    ASSERT_TRUE(driver.until_empty());
    EXPECT_EQ(driver.delivered_tags.size(), 11U);
}

TEST_F(Nats, WhatIsTakenBackIsReportedAndNothingIsSentAfterThat)
{
    NatsDriver driver(nats_settings(server.url()));
    driver.produce({"a.x", "k", "0"});
    ASSERT_TRUE(driver.until_empty());
    server.process().pause();
    for (int i = 1; i <= 5; i++)
        driver.produce({"a.x", "k", std::to_string(i)});
    driver.sink->purge();
    driver.produce({"a.x", "k", "6"});
    ASSERT_TRUE(driver.until_empty());
    EXPECT_EQ(driver.failures.size(), 6U);
    for (const auto &failure : driver.failures)
        EXPECT_TRUE(failure.second.consequence);
    server.process().resume();
    EXPECT_LE(server.count("EVENTS"), 2U);
}

TEST_F(Nats, AServerThatHangsIsLeftAndSentToAgain)
{
    nats::Settings settings = nats_settings(server.url());
    settings.timeout_ms = 300;
    NatsDriver driver(settings);
    driver.produce({"a.x", "k", "0"});
    ASSERT_TRUE(driver.until_empty());
    server.process().pause();
    driver.produce({"a.x", "k", "1"});
    ASSERT_TRUE(driver.until([&] { return driver.troubles >= 1; }));
    EXPECT_FALSE(driver.sink->reachable(0));
    server.process().resume();
    ASSERT_TRUE(driver.until_empty());
    EXPECT_EQ(driver.failed_text(), "");
    EXPECT_EQ(by_key(server.messages("EVENTS"))["k"], (std::vector<std::string>{"0", "1"}));
}

// A refusal may be on its way to the caller while he queues what comes after it.
TEST_F(Nats, NothingOvertakesWhatWasRefused)
{
    std::mt19937 random(5);
    NatsDriver driver(nats_settings(server.url()));
    std::map<std::uint64_t, std::pair<std::string, std::string>> sent;
    std::set<std::string> refused_keys;
    for (int i = 0; i < 3000; i++)
    {
        const std::string key = "k" + std::to_string(random() % 5);
        const bool poison = random() % 50 == 0;
        driver.produce({"a.x", key, poison ? std::string(1 << 20, 'x') : std::to_string(i)});
        sent[driver.last_tag] = {key, std::to_string(i)};
        if (random() % 10 == 0)
            driver.serve(0, 1 + random() % 5);
    }
    ASSERT_TRUE(driver.until_empty());
    // All of the key that was queued before the refusal was told comes back, right behind it.
    std::set<std::uint64_t> told(driver.delivered_tags.begin(), driver.delivered_tags.end());
    for (size_t i = 0; i < driver.failures.size(); i++)
    {
        const auto &[tag, failure] = driver.failures[i];
        if (failure.consequence)
            continue;
        refused_keys.insert(sent[tag].first);
        size_t next = i;
        for (std::uint64_t later = tag + 1; later <= driver.queued_at_failure[i]; later++)
        {
            if (sent[later].first != sent[tag].first)
                continue;
            ASSERT_LT(++next, driver.failures.size());
            EXPECT_EQ(driver.failures[next].first, later) << "behind " << tag;
            EXPECT_TRUE(driver.failures[next].second.consequence);
        }
    }
    EXPECT_GT(refused_keys.size(), 1U);
    for (const auto &failure : driver.failures)
        EXPECT_TRUE(told.insert(failure.first).second);
    EXPECT_EQ(told.size(), sent.size());
}

} // namespace

} // namespace outbox::test
