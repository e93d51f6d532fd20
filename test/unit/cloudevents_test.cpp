#include "extension/core/cloudevents.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace outbox::test
{

namespace
{

std::string
encoded(std::string_view name)
{
    char buffer[1024];
    return {buffer, default_source(name, buffer)};
}

TEST(CloudEvents, TheDefaultSourceIsAPathOfOneEncodedSegment)
{
    EXPECT_EQ(encoded("shop"), "/shop");
    EXPECT_EQ(encoded(""), "/");
    EXPECT_EQ(encoded("AZaz09-._~"), "/AZaz09-._~");
    // pchar of RFC 3986 stays, what would end the segment or the path does not.
    EXPECT_EQ(encoded("!$&'()*+,;=:@"), "/!$&'()*+,;=:@");
    EXPECT_EQ(encoded("a/b?c#d[e]"), "/a%2Fb%3Fc%23d%5Be%5D");
    EXPECT_EQ(encoded("a b\"<>\\^`{|}"), "/a%20b%22%3C%3E%5C%5E%60%7B%7C%7D");
    EXPECT_EQ(encoded("100%"), "/100%25");
    EXPECT_EQ(encoded("Größe 鍵"), "/Gr%C3%B6%C3%9Fe%20%E9%8D%B5");
    EXPECT_EQ(encoded(std::string_view("\x00\x7f\xff", 3)), "/%00%7F%FF");
}

TEST(CloudEvents, EveryDefaultSourceIsAURIReference)
{
    for (int c = 0; c < 256; ++c)
    {
        const std::string name(2, static_cast<char>(c));
        EXPECT_TRUE(check_source(encoded(name)).ok) << c;
    }
}

TEST(CloudEvents, ASourceIsAURIReference)
{
    for (const char *text :
         {"", "/", "/shop", "shop", "urn:example:shop", "https://example.com:8080/a%20b?c=d#e",
          "//[2001:db8::1]/x", "?q", "#f", "mailto:a@b.c", "a!$&'()*+,;=:@-._~"})
        EXPECT_TRUE(check_source(text).ok) << text;
    const std::pair<const char *, const char *> wrong[] = {
        {"my shop", "has a character that a URI-reference does not allow"},
        {"/größe", "has a character that a URI-reference does not allow"},
        {"/a\"b", "has a character that a URI-reference does not allow"},
        {"/{database}", "has a character that a URI-reference does not allow"},
        {"/a\tb", "has a character that a URI-reference does not allow"},
        {"/%2", "has a \"%\" without two hexadecimal digits"},
        {"/%", "has a \"%\" without two hexadecimal digits"},
        {"/%zz", "has a \"%\" without two hexadecimal digits"},
        {"#a#b", "has a second \"#\""}};
    for (const auto &[text, reason] : wrong)
    {
        EXPECT_FALSE(check_source(text).ok) << text;
        EXPECT_STREQ(check_source(text).reason, reason) << text;
        EXPECT_STRNE(check_source(text).hint, "") << text;
    }
    EXPECT_TRUE(check_source(std::string(1000, 'a')).ok);
    EXPECT_FALSE(check_source(std::string(1001, 'a')).ok);
}

TEST(CloudEvents, OnlyTheRelaysOwnAttributesAreTakenFromTheCaller)
{
    for (const char *name :
         {"ce_id", "ce_source", "ce_specversion", "ce_type", "ce_time", "ce_subject",
          "ce_aggregatetype", "ce_schemaversion", "CE_ID", "Ce_Time"})
        EXPECT_TRUE(is_cloudevents_header(name)) << name;
    for (const char *name :
         {"ce_dataschema", "ce_traceparent", "ce_", "ce", "", "ce_idx", "content-type", "id"})
        EXPECT_FALSE(is_cloudevents_header(name)) << name;
}

TEST(CloudEvents, TheContentTypeIsTheOneOfItsOwnNameAndNeverOneOfTheStructuredMode)
{
    ContentType content;
    EXPECT_FALSE(content.take("content-types", "text/plain"));
    EXPECT_FALSE(content.take("ce_datacontenttypes", "text/plain"));
    EXPECT_TRUE(content.value.empty());
    EXPECT_TRUE(content.take("ce_datacontenttype", "a/a"));
    EXPECT_EQ(content.value, "a/a");
    EXPECT_TRUE(content.take("Content-Type", "b/b"));
    EXPECT_EQ(content.value, "b/b");
    EXPECT_TRUE(content.take("ce_datacontenttype", "a/a"));
    EXPECT_TRUE(content.take("content-type", "Application/CloudEvents+json; charset=utf-8"));
    EXPECT_EQ(content.value, "b/b");
    EXPECT_TRUE(content.take("content-type", "c/c"));
    EXPECT_TRUE(content.take("CONTENT-TYPE", "d/d"));
    EXPECT_EQ(content.value, "c/c");
}

// By the definition of a String in the specification.
TEST(CloudEvents, AnAttributeHasNoControlCharactersAndNoNoncharacters)
{
    EXPECT_TRUE(is_attribute_text(""));
    for (std::uint32_t point = 0; point <= 0x10ffff; ++point)
    {
        const bool near_an_end = (point & 0xffff) < 0x200 || (point & 0xffff) > 0xfd00;
        if ((point >= 0xd800 && point <= 0xdfff) || !near_an_end)
            continue;
        const bool allowed = point >= 0x20 && !(point >= 0x7f && point <= 0x9f) &&
                             !(point >= 0xfdd0 && point <= 0xfdef) && (point & 0xfffe) != 0xfffe;
        std::string text = "ab";
        if (point < 0x80)
            text += static_cast<char>(point);
        else if (point < 0x800)
            text +=
                {static_cast<char>(0xc0 | point >> 6), static_cast<char>(0x80 | (point & 0x3f))};
        else if (point < 0x10000)
            text += {static_cast<char>(0xe0 | point >> 12),
                     static_cast<char>(0x80 | (point >> 6 & 0x3f)),
                     static_cast<char>(0x80 | (point & 0x3f))};
        else
            text += {static_cast<char>(0xf0 | point >> 18),
                     static_cast<char>(0x80 | (point >> 12 & 0x3f)),
                     static_cast<char>(0x80 | (point >> 6 & 0x3f)),
                     static_cast<char>(0x80 | (point & 0x3f))};
        ASSERT_EQ(is_attribute_text(text), allowed) << point;
        ASSERT_EQ(is_attribute_text(text + "c"), allowed) << point;
    }
}

} // namespace

} // namespace outbox::test
