// The client library: texts for PostgreSQL, pauses, dead letters, and what options are refused.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "client/src/backoff.h"
#include "client/src/dead_letters.h"
#include "client/src/text.h"
#include "outbox/error.h"

using namespace outbox::v0::detail;
using outbox::v0::Header;
using outbox::v0::Record;

TEST(ClientText, JsonObjectsEscapeWhatJsonMustNotContain)
{
    EXPECT_EQ(json_object({}), "{}");
    EXPECT_EQ(json_object({{"a", "1"}, {"b\"", "\\ \n \x1f ä"}}),
              "{\"a\":\"1\",\"b\\\"\":\"\\\\ \\u000a \\u001f ä\"}");
}

TEST(ClientText, ArrayLiteralsQuoteEveryElement)
{
    ArrayLiteral array;
    EXPECT_EQ(array.finish(), "{}");
    array.add("");
    array.add("NULL");
    array.add_null();
    array.add("a\"b\\c{,}");
    EXPECT_EQ(array.finish(), R"({"","NULL",NULL,"a\"b\\c{,}"})");
    array.add("again");
    EXPECT_EQ(array.finish(), R"({"again"})");
}

TEST(ClientText, OnlyTheUsualFormOfAUuidIsOne)
{
    EXPECT_EQ(parse_uuid("019C0E6B-90a7-7a22-8000-5d1f0d4c1c1e"),
              "019c0e6b-90a7-7a22-8000-5d1f0d4c1c1e");
    for (const char *none :
         {"", "019c0e6b90a77a2280005d1f0d4c1c1e", "019c0e6b-90a7-7a22-8000-5d1f0d4c1c1g",
          "019c0e6b-90a7-7a22-8000-5d1f0d4c1c1", "{019c0e6b-90a7-7a22-8000-5d1f0d4c1}",
          "019c0e6b-90a7-7a22-8000-5d1f0d4c1c1ee", "019c0e6b-90a7-7a22-80005-d1f0d4c1c1e"})
        EXPECT_FALSE(parse_uuid(none)) << none;
}

TEST(ClientText, AZeroByteIsRefusedAndNotCutOff)
{
    EXPECT_NO_THROW(require_text("it", ""));
    EXPECT_THROW(require_text("it", std::string_view("a\0b", 3)), outbox::v0::UsageError);
    EXPECT_THROW(require_value("it", ""), outbox::v0::UsageError);
}

TEST(ClientText, ClippedTextEndsWithAWholeCharacter)
{
    EXPECT_EQ(clip("abc", 3), "abc");
    EXPECT_EQ(clip("aä", 2), "a");
    EXPECT_EQ(clip("ä", 1), "");
    EXPECT_EQ(bounded(std::string(8192, 'x')), std::string(8192, 'x'));
    EXPECT_EQ(bounded(std::string(8191, 'x') + "ää"),
              std::string(8191, 'x') + "... (cut off; it has 8195 bytes)");
}

TEST(ClientBackoff, PausesDoubleUpToTheLongestAndVaryByHalf)
{
    constexpr Milliseconds kInitial{100};
    constexpr Milliseconds kLongest{1000};
    for (const std::uint64_t random : {0ULL, 1ULL, 50ULL, ~0ULL})
        for (int failures = 1; failures < 70; ++failures)
        {
            const double whole = std::min(1000.0, 100.0 * std::pow(2.0, failures - 1));
            const auto pause = backoff(kInitial, kLongest, failures, random).count();
            EXPECT_GE(pause, static_cast<std::int64_t>(whole / 2)) << failures;
            EXPECT_LE(pause, static_cast<std::int64_t>(whole)) << failures;
        }
    EXPECT_EQ(backoff(kInitial, kLongest, 1, 0).count(), 50);
    EXPECT_EQ(backoff(kInitial, kLongest, 1, 50).count(), 100);
    EXPECT_EQ(backoff(std::chrono::hours(1), std::chrono::hours(1), 1000, 0),
              std::chrono::minutes(30));
}

TEST(ClientDeadLetters, HeadersTellWhereTheyComeFromOnceOnly)
{
    Record record;
    record.topic = "t";
    record.partition = 3;
    record.offset = 7;
    record.headers = {{"id", "x"}, {"dlq_error", "old"}, {"n", std::nullopt}};
    const std::vector<Header> headers =
        dead_letter_headers(record, {std::string(3000, 'e'), 5, "billing"});
    ASSERT_EQ(headers.size(), 8U);
    EXPECT_EQ(headers[0].name, "id");
    EXPECT_EQ(headers[1].name, "n");
    EXPECT_FALSE(headers[1].value);
    EXPECT_EQ(headers[2].value->size(), 2000U);
    EXPECT_EQ(headers[3].value, "5");
    EXPECT_EQ(headers[4].value, "billing");
    EXPECT_EQ(headers[5].value, "t");
    EXPECT_EQ(headers[6].value, "3");
    EXPECT_EQ(headers[7].value, "7");
}
