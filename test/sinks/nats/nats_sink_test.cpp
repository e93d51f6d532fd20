// The sink on Debian's nats-server.
#include "nats_fixture.h"

#include "test/support/seed.h"

#include <gtest/gtest.h>
#include <random>
#include <set>

namespace outbox::test
{

namespace
{

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
