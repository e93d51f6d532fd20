// JSON as outboxctl prints it, and texts of others on a terminal.
#include "client/outboxctl/characters.h"
#include "client/outboxctl/json.h"
#include "extension/core/json_text.h"
#include "client/outboxctl/units.h"

#include <gtest/gtest.h>

namespace outbox::ctl
{

namespace
{

TEST(CtlJson, WhatPostgresWroteStaysAsItIs)
{
    Json json = {{"a", written(R"({"n": 25.00, "e": [1e400, 12345678901234567890123456789]})")}};
    EXPECT_EQ(to_line(json), R"({"a":{"n":25.00,"e":[1e400,12345678901234567890123456789]}})");
    EXPECT_EQ(to_lines(json), "{\n  \"a\": {\n    \"n\": 25.00,\n    \"e\": [\n      1e400,\n"
                              "      12345678901234567890123456789\n    ]\n  }\n}");
    EXPECT_EQ(indented(R"({"a": [], "b": {}, "c": "{[,:]} \" \\"})"),
              "{\n  \"a\": [],\n  \"b\": {},\n  \"c\": \"{[,:]} \\\" \\\\\"\n}");
    EXPECT_EQ(indented("1.50"), "1.50");
}

TEST(CtlJson, NumbersKeepTheirDigitsAndTheRestIsText)
{
    for (const char *text :
         {"0", "-0", "25.00", "1e-7", "1.5E+300", "-123456789012345678901234.50"})
        EXPECT_EQ(to_line(number(text)), text);
    for (const char *text :
         {"NaN", "Infinity", "-Infinity", "", "01", "1.", ".5", "1e", "+1", "1 "})
        EXPECT_EQ(to_line(number(text)), "\"" + std::string(text) + "\"");
}

TEST(CtlJson, WhatIsHiddenIsEscapedAndBrokenBytesAreReplaced)
{
    EXPECT_EQ(to_line(Json("a\n\t\x1f\x7f\xc2\x85\xe2\x80\xae\xf3\xa0\x81\x81\"\\")),
              R"("a\n\t\u001f\u007f\u0085\u202e\udb40\udc41\"\\")");
    EXPECT_EQ(to_line(written("{\"\x7f\":\"\xe2\x80\x8b\"}")), R"({"\u007f":"\u200b"})");
    EXPECT_EQ(to_line(Json("\xff")), "\"\xef\xbf\xbd\"");
    EXPECT_EQ(indented("\"\xff\""), "\"\\xff\"");
    // Of a server that is none.
    EXPECT_EQ(to_line(written("\x1b[2J\xe2\x80\xae")),
              "\xef\xbf\xbd[2J\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    EXPECT_EQ(to_line(Json("ä€😀")), "\"ä€😀\"");
    EXPECT_EQ(printable("\xe2\x80\xae\xe2\x80\x8b\xf3\xa0\x81\x81"), "\\u202e\\u200b\\U000e0041");
}

// As "perl -e" prints \p{Default_Ignorable_Code_Point} and \p{Bidi_Control} of Unicode 14.
TEST(Characters, WhatUnicodeSaysIsNotSeenIsHidden)
{
    const std::vector<std::pair<uint32_t, uint32_t>> ranges = {
        {0xad, 0xad},      {0x34f, 0x34f},   {0x61c, 0x61c},     {0x115f, 0x1160},
        {0x17b4, 0x17b5},  {0x180b, 0x180f}, {0x200b, 0x200f},   {0x202a, 0x202e},
        {0x2060, 0x206f},  {0x3164, 0x3164}, {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},
        {0xffa0, 0xffa0},  {0xfff0, 0xfff8}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a},
        {0xe0000, 0xe0fff}};
    for (const auto &[first, last] : ranges)
        for (uint32_t code = first; code <= last; ++code)
            ASSERT_TRUE(is_hidden(code)) << std::hex << code;
    // What stands beside them, and is seen.
    for (const uint32_t code :
         {0xacU,   0xaeU,   0x34eU,  0x350U,   0x61bU,   0x115eU,  0x1161U, 0x17b3U, 0x17b6U,
          0x180aU, 0x1810U, 0x2010U, 0x202fU,  0x3163U,  0x3165U,  0xfdffU, 0xfe10U, 0xff9fU,
          0xffa1U, 0xfffcU, 0xfffdU, 0x1bc9fU, 0x1bca4U, 0x1d172U, 0x1d17bU})
        EXPECT_FALSE(is_hidden(code)) << std::hex << code;
}

// A parser that knows nothing of it reads back each character there is.
TEST(CtlJson, EveryCharacterComesBack)
{
    std::string all;
    for (std::uint32_t code = 0; code <= 0x10ffff; code += code < 0x3000 ? 1 : 61)
    {
        if (code >= 0xd800 && code < 0xe000)
            continue;
        if (code < 0x80)
            all += static_cast<char>(code);
        else if (code < 0x800)
            all.append(1, static_cast<char>(0xc0 | code >> 6))
                .append(1, static_cast<char>(0x80 | (code & 0x3f)));
        else if (code < 0x10000)
            all.append(1, static_cast<char>(0xe0 | code >> 12))
                .append(1, static_cast<char>(0x80 | (code >> 6 & 0x3f)))
                .append(1, static_cast<char>(0x80 | (code & 0x3f)));
        else
            all.append(1, static_cast<char>(0xf0 | code >> 18))
                .append(1, static_cast<char>(0x80 | (code >> 12 & 0x3f)))
                .append(1, static_cast<char>(0x80 | (code >> 6 & 0x3f)))
                .append(1, static_cast<char>(0x80 | (code & 0x3f)));
    }
    ASSERT_TRUE(is_utf8(all));
    const std::string line = to_line(Json(all));
    EXPECT_EQ(nlohmann::json::parse(line).get<std::string>(), all);
    for (const std::string &shown : {line, printable(all)})
        for (std::string_view rest = shown; !rest.empty();)
        {
            const Character character = first_character(rest);
            ASSERT_TRUE(character.valid && !is_hidden(character.code)) << character.code;
            rest.remove_prefix(character.bytes.size());
        }
}

TEST(CtlJson, TheGrammarDistinguishesJsonFromTheRest)
{
    for (const char *text :
         {"1e400", "-0.50E+7", " null\n", "\"\"", "[]", "{ }", "[ [ ] , {\t} ]", "true",
          R"({"a": [1, {"b": null}], "a": "\u00e9\ud800\"\\\/\b\f\n\r\t"})",
          "\"\xff\x7f\xe2\x80\xae\"", "[12345678901234567890123456789,\r\nfalse]"})
        EXPECT_TRUE(is_json(text)) << text;
    for (const char *text : {"",
                             " ",
                             "tru",
                             "nul",
                             "truefalse",
                             "1 2",
                             "[1,]",
                             "[,1]",
                             "[1",
                             "[1}",
                             "]",
                             "[]]",
                             "{",
                             "{\"a\"}",
                             "{\"a\":}",
                             "{1:2}",
                             "{,}",
                             "{a:1}",
                             "01",
                             "1.",
                             "-",
                             "+1",
                             ".5",
                             "1e",
                             "NaN",
                             "\"",
                             "\"\\\"",
                             "\"\\x\"",
                             "\"\\u12g4\"",
                             "\"\\u123",
                             "\"\n\"",
                             "'a'",
                             "[1 2]",
                             "{\"a\" 1}",
                             "{\"a\":1,}",
                             "{\"a\":1 \"b\":2}",
                             "\x1b[2J",
                             "\xef\xbb\xbf"
                             "1"})
        EXPECT_FALSE(is_json(text)) << text;
    const std::string deep(1000000, '[');
    EXPECT_TRUE(is_json(deep + std::string(deep.size(), ']')));
    EXPECT_FALSE(is_json(deep + std::string(deep.size() - 1, ']')));
}

// What a parser that knows nothing of it makes of texts that are JSON but for a change or two.
TEST(CtlJson, TheGrammarIsThatOfAnotherParser)
{
    const std::string seed = R"([{"a":-1.5e+3,"b\u0041":[true,null,""]},0,"\n"] )";
    const std::string characters = "[]{}:,\"\\01-+.eEtrunlfas \n";
    std::size_t good = 0;
    const auto compare = [&](const std::string &text)
    {
        const bool expected = nlohmann::json::accept(text);
        good += expected ? 1 : 0;
        EXPECT_EQ(is_json(text), expected) << text;
    };
    for (std::size_t i = 0; i < seed.size(); i++)
    {
        compare(std::string(seed).erase(i, 1));
        for (const char c : characters)
        {
            compare(std::string(seed).insert(i, 1, c));
            std::string changed = seed;
            changed[i] = c;
            compare(changed);
            compare(changed.substr(0, i + 1));
        }
    }
    EXPECT_GT(good, 50U);
}

TEST(CtlJson, DeepNestingIsNotIndentedWithoutEnd)
{
    const std::string deep = std::string(5000, '[') + std::string(5000, ']');
    EXPECT_EQ(to_line(written(deep)), deep);
    EXPECT_LT(indented(deep).size(), 1000000U);
}

} // namespace

} // namespace outbox::ctl
