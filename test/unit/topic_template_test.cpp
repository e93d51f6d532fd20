#include "extension/core/topic_template.h"

#include <gtest/gtest.h>

#include <string>
#include <type_traits>

namespace outbox::test
{

namespace
{

// Expands and returns the name, or "error: " and the reason.
std::string
expanded(const char *text, std::string_view aggregate_type, std::string_view event_type,
         std::size_t capacity = kMaxTopicLength)
{
    TopicTemplate topic;
    const Verdict verdict = topic.compile(text);
    EXPECT_TRUE(verdict.ok) << text << ": " << verdict.reason;
    char buffer[kMaxTopicLength];
    const TopicName name = topic.expand(aggregate_type, event_type, buffer, capacity);
    return name.error == nullptr ? std::string(buffer, name.length)
                                 : std::string("error: ") + name.error;
}

std::string
refusal(std::string_view text)
{
    const Verdict verdict = check_template(text);
    EXPECT_FALSE(verdict.ok) << text;
    EXPECT_STRNE(verdict.hint, "") << text;
    return verdict.reason;
}

static_assert(std::is_trivially_destructible_v<TopicTemplate>);
static_assert(std::is_trivially_destructible_v<Verdict>);

TEST(TopicTemplate, ExpandsPlaceholdersAnywhere)
{
    EXPECT_EQ(expanded("outbox.event.{aggregate_type}", "order", "created"), "outbox.event.order");
    EXPECT_EQ(expanded("{aggregate_type}", "order", "created"), "order");
    EXPECT_EQ(expanded("{event_type}-{aggregate_type}_{event_type}", "a", "b"), "b-a_b");
    EXPECT_EQ(expanded("{aggregate_type}{event_type}", "a", "b"), "ab");
}

TEST(TopicTemplate, WithoutPlaceholderIsOneFixedTopic)
{
    EXPECT_EQ(expanded("all-events", "order", "created"), "all-events");
    EXPECT_EQ(expanded("all-events", "not legal", ""), "all-events");
}

TEST(TopicTemplate, RefusesMalformedText)
{
    EXPECT_EQ(refusal(""), "is empty");
    EXPECT_EQ(refusal("a.{aggregate_id}"), "has the unknown placeholder \"{aggregate_id}\"");
    EXPECT_EQ(refusal("a.{}"), "has the unknown placeholder \"{}\"");
    EXPECT_EQ(refusal("a.{aggregate_type"), "has a \"{\" without a \"}\"");
    EXPECT_EQ(refusal("a.{"), "has a \"{\" without a \"}\"");
    EXPECT_EQ(refusal("a}"), "has a \"}\" without a \"{\"");
    EXPECT_EQ(refusal("{event_type}}"), "has a \"}\" without a \"{\"");
    EXPECT_EQ(refusal("{{event_type}}"), "has the unknown placeholder \"{{event_type}\"");
    EXPECT_EQ(refusal("my topic"), "contains a character that Kafka does not take");
    EXPECT_EQ(refusal("t\xC3\xB6pic"), "contains a character that Kafka does not take");
    EXPECT_EQ(refusal(std::string_view("a\0b", 3)),
              "contains a character that Kafka does not take");
    EXPECT_EQ(refusal("."), "is \".\" or \"..\"");
    EXPECT_EQ(refusal(".."), "is \".\" or \"..\"");
}

TEST(TopicTemplate, RefusesWhatIsTooLong)
{
    EXPECT_TRUE(check_template(std::string(249, 'a')).ok);
    EXPECT_EQ(refusal(std::string(250, 'a')), "is too long");
    EXPECT_TRUE(check_template(std::string(249, 'a') + "{event_type}").ok);
    EXPECT_EQ(refusal(std::string(125, 'a') + "{event_type}" + std::string(125, 'a')),
              "is too long");
    std::string many;
    for (int i = 0; i < 16; ++i)
        many += "{event_type}";
    EXPECT_TRUE(check_template(many).ok);
    EXPECT_EQ(refusal(many + "{event_type}"), "has too many placeholders");
    EXPECT_EQ(refusal(many + "a"), "is too long");
}

TEST(TopicTemplate, QuotesAVeryLongPlaceholderInPart)
{
    const std::string reason = refusal("{" + std::string(100000, 'x') + "}");
    EXPECT_LT(reason.size(), 120U);
    EXPECT_NE(reason.find("xxx"), std::string::npos);
}

TEST(TopicTemplate, RefusesNamesThatKafkaWouldNotTake)
{
    const char *const one = "{aggregate_type}";
    EXPECT_EQ(expanded(one, "my order", ""),
              "error: contains a character that Kafka does not take");
    EXPECT_EQ(expanded(one, "a/b", ""), "error: contains a character that Kafka does not take");
    EXPECT_EQ(expanded(one, "\xFF", ""), "error: contains a character that Kafka does not take");
    EXPECT_EQ(expanded(one, std::string_view("\0", 1), ""),
              "error: contains a character that Kafka does not take");
    EXPECT_EQ(expanded(one, "", ""), "error: is empty");
    EXPECT_EQ(expanded(one, ".", ""), "error: is \".\" or \"..\"");
    EXPECT_EQ(expanded(".{aggregate_type}", "", ""), "error: is \".\" or \"..\"");
    EXPECT_EQ(expanded(".{aggregate_type}", ".", ""), "error: is \".\" or \"..\"");
    EXPECT_EQ(expanded(".{aggregate_type}", "..", ""), "...");
}

TEST(TopicTemplate, AcceptsExactly249Characters)
{
    const std::string longest(240, 'x');
    EXPECT_EQ(expanded("outbox.ab{event_type}", "", longest), "outbox.ab" + longest);
    EXPECT_EQ(expanded("outbox.abc{event_type}", "", longest),
              "error: is longer than 249 characters");
    EXPECT_EQ(expanded("{event_type}", "", std::string(1000000, 'x')),
              "error: is longer than 249 characters");
}

TEST(TopicTemplate, StaysInsideASmallBuffer)
{
    EXPECT_EQ(expanded("ab{event_type}", "", "cd", 4), "abcd");
    EXPECT_EQ(expanded("ab{event_type}", "", "cde", 4), "error: is longer than 249 characters");
    EXPECT_EQ(expanded("ab{event_type}", "", "c", 0), "error: is longer than 249 characters");
}

TEST(TopicTemplate, KeepsTheOldFormWhenTheNewOneIsRefused)
{
    TopicTemplate topic;
    ASSERT_TRUE(topic.compile("old.{event_type}").ok);
    ASSERT_FALSE(topic.compile("new.{event_type").ok);
    char buffer[kMaxTopicLength];
    const TopicName name = topic.expand("a", "b", buffer, sizeof buffer);
    EXPECT_EQ(std::string(buffer, name.length), "old.b");
}

TEST(TopicTemplate, ExpandsToNothingBeforeItIsCompiled)
{
    const TopicTemplate topic;
    char buffer[kMaxTopicLength];
    EXPECT_STREQ(topic.expand("a", "b", buffer, sizeof buffer).error, "is empty");
}

// Whatever goes in, what comes out is a name that check_topic_name() accepts.
TEST(TopicTemplate, NeverProducesAnIllegalName)
{
    TopicTemplate topic;
    ASSERT_TRUE(topic.compile("{aggregate_type}{event_type}").ok);
    char buffer[kMaxTopicLength];
    for (int first = 0; first < 256; ++first)
    {
        for (int second = 0; second < 256; ++second)
        {
            const char a = static_cast<char>(first);
            const char b = static_cast<char>(second);
            const std::string text{a, b};
            const TopicName name = topic.expand({&a, 1}, {&b, 1}, buffer, sizeof buffer);
            const char *expected = check_topic_name(text);
            ASSERT_EQ(name.error == nullptr, expected == nullptr) << first << " " << second;
            if (expected != nullptr)
                ASSERT_STREQ(name.error, expected);
            else
                ASSERT_EQ(std::string(buffer, name.length), text);
        }
    }
}

TEST(CheckTopicName, FollowsKafkasRule)
{
    EXPECT_EQ(check_topic_name("a"), nullptr);
    EXPECT_EQ(check_topic_name("azAZ09._-"), nullptr);
    EXPECT_EQ(check_topic_name("..."), nullptr);
    EXPECT_EQ(check_topic_name(std::string(249, 'x')), nullptr);
    EXPECT_STREQ(check_topic_name(std::string(250, 'x')), "is longer than 249 characters");
    EXPECT_STREQ(check_topic_name(""), "is empty");
    EXPECT_STREQ(check_topic_name("."), "is \".\" or \"..\"");
    EXPECT_STREQ(check_topic_name("a:b"), "contains a character that Kafka does not take");
}

TEST(Clip, DoesNotSplitACharacter)
{
    EXPECT_EQ(clip("abc", 3), "abc");
    EXPECT_EQ(clip("abcd", 3), "abc");
    EXPECT_EQ(clip("ab\xC3\xB6", 3), "ab");
    EXPECT_EQ(clip("\xE2\x82\xAC", 2), "");
}

} // namespace

} // namespace outbox::test
