#include "extension/core/routes.h"

#include <gtest/gtest.h>

#include <string>

namespace outbox::test
{

namespace
{

RouteText
row(std::string_view aggregate_type, std::string_view event_type, std::string_view topic = "t")
{
    return {aggregate_type, event_type, topic, std::nullopt, std::nullopt};
}

std::string
refusal(const RouteText &text)
{
    Route route;
    const Verdict verdict = read_route(text, &route);
    EXPECT_FALSE(verdict.ok);
    return verdict.reason;
}

// The row that an event takes, or "-".
std::string
taken(const RouteTable &table, std::string_view aggregate_type, std::string_view event_type)
{
    const RouteTable::Entry *entry = table.find(aggregate_type, event_type);
    return entry == nullptr ? "-" : entry->aggregate_type + "/" + entry->event_type;
}

TEST(Routes, TheMostSpecificRowWinsInWhateverOrderTheyWereAdded)
{
    const RouteText rows[] = {row("*", "*"), row("*", "paid"), row("order", "*"),
                              row("order", "paid")};
    for (const bool backwards : {false, true})
    {
        RouteTable table;
        for (int i = 0; i < 4; ++i)
            ASSERT_TRUE(table.add(rows[backwards ? 3 - i : i]).ok);
        EXPECT_EQ(taken(table, "order", "paid"), "order/paid");
        EXPECT_EQ(taken(table, "order", "sent"), "order/*");
        EXPECT_EQ(taken(table, "bill", "paid"), "*/paid");
        EXPECT_EQ(taken(table, "bill", "sent"), "*/*");
    }
}

TEST(Routes, WithoutARowThatFitsThereIsNone)
{
    RouteTable table;
    EXPECT_TRUE(table.empty());
    EXPECT_EQ(taken(table, "order", "paid"), "-");
    ASSERT_TRUE(table.add(row("order", "paid")).ok);
    EXPECT_FALSE(table.empty());
    EXPECT_EQ(taken(table, "order", "sent"), "-");
    EXPECT_EQ(taken(table, "orde", "rpaid"), "-");
    EXPECT_EQ(taken(table, "Order", "paid"), "-");
}

TEST(Routes, ATypeThatIsWrittenLikeAnyIsRoutedLikeAnyOther)
{
    RouteTable table;
    ASSERT_TRUE(table.add(row("order", "*")).ok);
    EXPECT_EQ(taken(table, "order", "*"), "order/*");
    EXPECT_EQ(taken(table, "*", "paid"), "-");
}

TEST(Routes, ASecondRowOfTheSameTypesIsRefused)
{
    RouteTable table;
    ASSERT_TRUE(table.add(row("order", "*", "one")).ok);
    EXPECT_STREQ(table.add(row("order", "*", "two")).reason, "types have another row");
    EXPECT_EQ(table.size(), 1U);
}

TEST(Routes, WhatIsMissingIsLeftToTheSettings)
{
    RouteTable table;
    ASSERT_TRUE(table.add({"a", "*", std::nullopt, std::nullopt, std::nullopt}).ok);
    ASSERT_TRUE(table.add({"b", "*", "t.{event_type}", "skip", "both"}).ok);
    const Route &none = table.find("a", "e")->route;
    EXPECT_FALSE(none.has_topic || none.blocks || none.headers);
    const Route &all = table.find("b", "e")->route;
    ASSERT_TRUE(all.has_topic && all.blocks && all.headers);
    char topic[kMaxTopicLength];
    const TopicName name = all.topic.expand("b", "e", topic, sizeof(topic));
    EXPECT_EQ(std::string(topic, name.length), "t.e");
    EXPECT_FALSE(*all.blocks);
    EXPECT_EQ(*all.headers, kBothHeaders);
}

TEST(Routes, EveryNameOfASettingIsReadAsWhatItNames)
{
    for (const HeadersFormat format : {kDebezium, kCloudEvents, kBothHeaders})
    {
        Route route;
        const RouteText text = {"a", "*", std::nullopt, std::nullopt, headers_format_name(format)};
        ASSERT_TRUE(read_route(text, &route).ok);
        EXPECT_EQ(route.headers, format);
    }
    for (const bool blocks : {true, false})
    {
        Route route;
        ASSERT_TRUE(
            read_route({"a", "*", std::nullopt, on_failure_name(blocks), std::nullopt}, &route).ok);
        EXPECT_EQ(route.blocks, blocks);
    }
}

TEST(Routes, RowsThatCannotBeUsedAreRefusedWithTheReason)
{
    EXPECT_EQ(refusal(row("", "*")), "aggregate_type is empty");
    EXPECT_EQ(refusal(row("*", "")), "event_type is empty");
    EXPECT_EQ(refusal(row(std::string(1001, 'a'), "*")),
              "aggregate_type is longer than 1000 bytes");
    EXPECT_EQ(refusal(row("*", "*", "")), "topic is empty");
    EXPECT_EQ(refusal(row("*", "*", "{key}")), "topic has the unknown placeholder \"{key}\"");
    EXPECT_EQ(refusal({"a", "b", {}, "stop", {}}), "on_failure is \"stop\", not block or skip");
    EXPECT_EQ(refusal({"a", "b", {}, "", {}}), "on_failure is \"\", not block or skip");
    EXPECT_EQ(refusal({"a", "b", {}, {}, "xml"}), "headers_format is \"xml\"");
}

TEST(Routes, ATopicThatTheTypesOfTheRowMakeIllegalIsRefused)
{
    EXPECT_EQ(refusal(row("a b", "*", "{aggregate_type}")),
              "topic, with its types put in, contains a character that Kafka does not take");
    EXPECT_EQ(refusal(row("*", std::string(250, 'e'), "{event_type}")),
              "topic, with its types put in, is longer than 249 characters");
    Route route;
    EXPECT_TRUE(read_route(row("a b", "*", "{event_type}"), &route).ok);
    EXPECT_TRUE(read_route(row("*", "*", "{aggregate_type}{event_type}"), &route).ok);
}

TEST(Routes, ATableHasABound)
{
    RouteTable table;
    for (std::size_t i = 0; i < kMaxRoutes; ++i)
        ASSERT_TRUE(table.add(row("a" + std::to_string(i), "*")).ok) << i;
    EXPECT_STREQ(table.add(row("one more", "*")).reason,
                 "place is beyond the 10000 that a table may have");
    EXPECT_EQ(taken(table, "a9999", "e"), "a9999/*");
}

} // namespace

} // namespace outbox::test
