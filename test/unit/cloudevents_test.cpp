#include "extension/core/cloudevents.h"

#include <gtest/gtest.h>

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
        {"my shop", "has a character that a URI-reference does not take"},
        {"/größe", "has a character that a URI-reference does not take"},
        {"/a\"b", "has a character that a URI-reference does not take"},
        {"/{database}", "has a character that a URI-reference does not take"},
        {"/a\tb", "has a character that a URI-reference does not take"},
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
    for (const char *name : {"ce_id", "ce_source", "ce_specversion", "ce_type", "ce_time",
                             "ce_subject", "ce_aggregatetype", "ce_schemaversion"})
        EXPECT_TRUE(is_cloudevents_header(name)) << name;
    for (const char *name : {"ce_dataschema", "ce_traceparent", "ce_", "ce", "", "CE_ID", "ce_idx",
                             "content-type", "id"})
        EXPECT_FALSE(is_cloudevents_header(name)) << name;
}

} // namespace

} // namespace outbox::test
