#include "bgworker/sinks/nats/subject.h"

#include <gtest/gtest.h>

#include <random>

namespace outbox::test
{

namespace
{

using nats::SubjectTemplate;

std::string
expand(const std::string &text, const EventNames &values)
{
    SubjectTemplate subject;
    const Verdict verdict = subject.compile(text);
    EXPECT_TRUE(verdict.ok) << text << ": " << verdict.reason;
    std::string result;
    const char *fault = subject.expand(values, result);
    return fault != nullptr ? std::string("! ") + fault : result;
}

std::string
refusal(const std::string &text)
{
    SubjectTemplate subject;
    return subject.compile(text).reason;
}

TEST(NatsSubject, ATemplateNamesWhatAnEventHas)
{
    const EventNames values = {"outbox.event.order", "order", "order.created", "4711"};
    EXPECT_EQ(expand("{topic}", values), "outbox.event.order");
    EXPECT_EQ(expand("orders.{event_type}", values), "orders.order.created");
    EXPECT_EQ(expand("{aggregate_type}.{key}.x", values), "order.4711.x");
}

TEST(NatsSubject, ACharacterThatASubjectCannotHoldIsWrittenAsItsCode)
{
    EXPECT_EQ(expand("a.{key}", {"", "", "", "x y*>\t%"}), "a.x%20y%2A%3E%09%25");
    EXPECT_EQ(expand("a.{event_type}", {"", "", "b.*.>", ""}), "a.b.%2A.%3E");
    EXPECT_EQ(expand("a.{key}", {"", "", "", "\xc3\xa4"}), "a.\xc3\xa4");
}

TEST(NatsSubject, AKeyIsOneTokenAndATypeKeepsItsDots)
{
    EXPECT_EQ(expand("a.{key}", {"", "", "", "1.2"}), "a.1%2E2");
    EXPECT_EQ(expand("{event_type}", {"", "", ".a..b.", ""}), "%2Ea.%2Eb%2E");
}

TEST(NatsSubject, NoEventReachesTheSubjectsOfTheServer)
{
    EXPECT_EQ(expand("{aggregate_type}", {"", "$JS.API.STREAM.DELETE.x", "", ""}),
              "%24JS.API.STREAM.DELETE.x");
    EXPECT_EQ(expand("{key}", {"", "", "", "_INBOX"}), "%5FINBOX");
    EXPECT_EQ(expand("a_{key}", {"", "", "", "$x"}), "a_$x");
}

TEST(NatsSubject, AnEventWithoutTheValueHasNoSubject)
{
    EXPECT_EQ(expand("a.{key}", {}),
              "! has a token that is empty, as the event has no value for it");
    EXPECT_EQ(expand("a.{key}", {"", "", "", std::string(2000, 'x')}),
              "! is longer than 1024 bytes");
}

TEST(NatsSubject, ATemplateThatCannotBeIsRefused)
{
    EXPECT_EQ(refusal(""), "has a token that is empty");
    EXPECT_EQ(refusal("a..b"), "has a token that is empty");
    EXPECT_EQ(refusal(".{key}"), "has a token that is empty");
    EXPECT_EQ(refusal("{key}."), "has a token that is empty");
    EXPECT_EQ(refusal("$JS.{key}"), "begins with \"$\"");
    EXPECT_EQ(refusal("_INBOX.a"), "begins with \"_\"");
    EXPECT_EQ(refusal("{id}"), "has the unknown placeholder \"{id}\"");
    EXPECT_EQ(refusal("{key"), "has a brace without its counterpart");
    EXPECT_EQ(refusal("a}"), "has a brace without its counterpart");
    EXPECT_NE(refusal("a b"), "");
    EXPECT_NE(refusal("a.*"), "");
    EXPECT_NE(refusal("a.>"), "");
    EXPECT_NE(refusal(std::string(600, 'a')), "");
}

// What a server would take for another subject than was meant.
bool
is_plain(const std::string &subject)
{
    for (const char c : subject)
        if (static_cast<unsigned char>(c) <= ' ' || c == '*' || c == '>' || c == '\x7f')
            return false;
    return !subject.empty() && subject.front() != '.' && subject.back() != '.' &&
           subject.front() != '$' && subject.front() != '_' &&
           subject.find("..") == std::string::npos;
}

TEST(NatsSubject, WhateverAnEventHasItsSubjectIsAPlainOne)
{
    std::mt19937 random(17);
    const std::string alphabet(".$_*> %\0\x01\x7f"
                               "ab\xff{}",
                               16);
    const auto draw = [&]
    {
        std::string text;
        for (auto i = random() % 6; i > 0; i--)
            text += alphabet[random() % alphabet.size()];
        return text;
    };
    for (int i = 0; i < 20000; i++)
    {
        SubjectTemplate subject;
        ASSERT_TRUE(
            subject.compile(i % 2 == 0 ? "{aggregate_type}{event_type}" : "{topic}.{key}").ok);
        const std::string texts[] = {draw(), draw(), draw(), draw()};
        std::string result;
        const bool made =
            subject.expand({texts[0], texts[1], texts[2], texts[3]}, result) == nullptr;
        ASSERT_TRUE(!made || is_plain(result)) << result;
    }
}

} // namespace

} // namespace outbox::test
