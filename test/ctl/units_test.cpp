// Numbers, times and texts for people.
#include "client/outboxctl/topic_pattern.h"
#include "client/outboxctl/units.h"

#include <gtest/gtest.h>

namespace outbox::ctl
{

namespace
{

TEST(Units, CountsHaveCommasAndNumber)
{
    EXPECT_EQ(with_commas(0), "0");
    EXPECT_EQ(with_commas(999), "999");
    EXPECT_EQ(with_commas(1000), "1,000");
    EXPECT_EQ(with_commas(-1234567), "-1,234,567");
    EXPECT_EQ(counted(1, "event"), "1 event");
    EXPECT_EQ(counted(1200, "event"), "1,200 events");
}

TEST(Units, DurationsUseTwoUnits)
{
    EXPECT_EQ(human_duration(-3), "0 ms");
    EXPECT_EQ(human_duration(0.012), "12 ms");
    EXPECT_EQ(human_duration(0.9999), "1.0 s");
    EXPECT_EQ(human_duration(59.97), "1 min");
    EXPECT_EQ(human_duration(312), "5 min 12 s");
    EXPECT_EQ(human_duration(7500), "2 h 5 min");
    EXPECT_EQ(human_duration(3 * 86400 + 4 * 3600), "3 d 4 h");
}

TEST(Units, LettersOfAsciiChangeTheirCase)
{
    EXPECT_EQ(lower("[AZ]az_09 Ä"), "[az]az_09 Ä");
    EXPECT_EQ(upper("[AZ]`az{_09 ä"), "[AZ]`AZ{_09 ä");
}

TEST(Units, BytesAndRates)
{
    EXPECT_EQ(human_bytes(512), "512 B");
    EXPECT_EQ(human_bytes(1536), "1.5 kB");
    EXPECT_EQ(human_bytes(32LL * 1024 * 1024), "32 MB");
    EXPECT_EQ(human_rate(0), "0 /s");
    EXPECT_EQ(human_rate(0.5), "0.5 /s");
    EXPECT_EQ(human_rate(12345), "12,345 /s");
}

TEST(Units, TimesAreReadWithTheirUnits)
{
    EXPECT_EQ(parse_duration("90"), 90);
    EXPECT_EQ(parse_duration("200ms"), 0.2);
    EXPECT_EQ(parse_duration("15m"), 900);
    EXPECT_EQ(parse_duration("1.5h"), 5400);
    EXPECT_EQ(parse_duration("7d"), 604800);
    for (const char *text : {"", "x", "-1", "1x", "nan", "inf", "1e300", "5 m"})
        EXPECT_FALSE(parse_duration(text).has_value()) << text;
}

TEST(Units, WhatATerminalObeysIsWrittenOut)
{
    EXPECT_EQ(printable("a\x1b[31m\n\t\x7f"), "a\\x1b[31m\\n\\t\\x7f");
    EXPECT_EQ(printable("ä€😀"), "ä€😀");
    EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b") << "C1: CSI in one character";
    EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
    EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "a surrogate";
    EXPECT_TRUE(is_utf8("ä€😀"));
    for (const char *text : {"\xff", "\xc3", "\xc0\x80", "\xe0\x80\x80", "\xf4\x90\x80\x80"})
        EXPECT_FALSE(is_utf8(text));
}

TEST(Units, TextsAreCutBetweenCharacters)
{
    EXPECT_EQ(shortened("short", 5), "short");
    EXPECT_EQ(shortened("longer", 5), "long…");
    EXPECT_EQ(shortened("ääää", 3), "ää…");
    EXPECT_EQ(columns_of("ä€😀"), 3U);
}

TEST(Units, Base64AndHex)
{
    EXPECT_EQ(to_base64(""), "");
    EXPECT_EQ(to_base64("f"), "Zg==");
    EXPECT_EQ(to_base64("fo"), "Zm8=");
    EXPECT_EQ(to_base64("foo"), "Zm9v");
    EXPECT_EQ(from_hex("\\x00ff41"), std::string("\0\xff"
                                                 "A",
                                                 3));
}

TEST(TopicPatterns, MatchWhatTheTemplateCanName)
{
    const TopicPattern standard("outbox.event.{aggregate_type}");
    EXPECT_TRUE(standard.matches("outbox.event.order"));
    EXPECT_FALSE(standard.matches("outbox.event."));
    EXPECT_FALSE(standard.matches("outboxXevent.order"));
    EXPECT_FALSE(standard.matches("my.outbox.event.order"));
    EXPECT_FALSE(standard.matches("outbox.event.order.dlq"));
    EXPECT_EQ(standard.shown(), "outbox.event.*");
    const TopicPattern both("{aggregate_type}-{event_type}.v1");
    EXPECT_TRUE(both.matches("order-paid.v1"));
    EXPECT_FALSE(both.matches("order.v1"));
    EXPECT_TRUE(TopicPattern("all").matches("all"));
    EXPECT_FALSE(TopicPattern("all").matches("al"));
    EXPECT_ANY_THROW(TopicPattern("{nonsense}"));
}

} // namespace

} // namespace outbox::ctl
