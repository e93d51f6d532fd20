#include "extension/core/kafka_config.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace outbox::test
{

namespace
{

using Pairs = std::vector<std::pair<std::string, std::string>>;

Pairs
accepted(const ParsedConfig &config)
{
    EXPECT_TRUE(config.verdict.ok) << config.verdict.reason;
    Pairs pairs;
    for (const Property &property : config.properties)
        pairs.emplace_back(property.name, property.value);
    return pairs;
}

std::string
refused(const ParsedConfig &config)
{
    EXPECT_FALSE(config.verdict.ok);
    EXPECT_TRUE(config.properties.empty());
    EXPECT_STRNE(config.verdict.hint, "");
    return config.verdict.reason;
}

Pairs
pairs(std::string_view text)
{
    return accepted(parse_config_pairs(text));
}

std::string
pairs_refusal(std::string_view text)
{
    return refused(parse_config_pairs(text));
}

Pairs
file(std::string_view text)
{
    return accepted(parse_config_file(text));
}

std::string
file_refusal(std::string_view text)
{
    return refused(parse_config_file(text));
}

TEST(ConfigPairs, ReadsNothing)
{
    EXPECT_EQ(pairs(""), Pairs{});
    EXPECT_EQ(pairs(" \t\r\n\f\v"), Pairs{});
}

TEST(ConfigPairs, ReadsPlainAndQuotedValues)
{
    EXPECT_EQ(pairs("linger.ms=5"), (Pairs{{"linger.ms", "5"}}));
    EXPECT_EQ(pairs("  a=1\n\tb = 2 "), (Pairs{{"a", "1"}, {"b", "2"}}));
    EXPECT_EQ(pairs("a='x y' b=''"), (Pairs{{"a", "x y"}, {"b", ""}}));
    EXPECT_EQ(pairs("a= 'x'"), (Pairs{{"a", "x"}}));
    EXPECT_EQ(pairs("a="), (Pairs{{"a", ""}}));
    EXPECT_EQ(pairs("a=b=c=="), (Pairs{{"a", "b=c=="}}));
    EXPECT_EQ(pairs("a=x'y"), (Pairs{{"a", "x'y"}}));
    EXPECT_EQ(pairs("a=\xC3\xB6"), (Pairs{{"a", "\xC3\xB6"}}));
    EXPECT_EQ(pairs("a=1 a=2"), (Pairs{{"a", "1"}, {"a", "2"}}));
}

TEST(ConfigPairs, ResolvesBackslashes)
{
    EXPECT_EQ(pairs(R"(a='it\'s' b='x\\y' c='\n')"),
              (Pairs{{"a", "it's"}, {"b", "x\\y"}, {"c", "n"}}));
    EXPECT_EQ(pairs(R"(a=x\ y b=\\ c=\'q\')"), (Pairs{{"a", "x y"}, {"b", "\\"}, {"c", "'q'"}}));
}

TEST(ConfigPairs, TellsWhereTheMistakeIs)
{
    EXPECT_EQ(pairs_refusal("a=1 bc"), "has a name without \"=\" at character 5");
    EXPECT_EQ(pairs_refusal("a=1 b c=2"), "has a name without \"=\" at character 5");
    EXPECT_EQ(pairs_refusal("=1"), "has something that is not a property name at character 1");
    EXPECT_EQ(pairs_refusal("a$=1"), "has something that is not a property name at character 1");
    EXPECT_EQ(pairs_refusal(std::string(129, 'n') + "=1"),
              "has something that is not a property name at character 1");
    EXPECT_EQ(pairs_refusal("a='x"), "has an unterminated quote at character 3");
    EXPECT_EQ(pairs_refusal("a='"), "has an unterminated quote at character 3");
    EXPECT_EQ(pairs_refusal("a='x\\"), "has an unterminated quote at character 3");
    EXPECT_EQ(pairs_refusal("a='x'b"), "has no blank after the closing quote at character 6");
    EXPECT_EQ(pairs_refusal("a=x\\"), "ends in a single backslash at character 4");
    EXPECT_EQ(pairs_refusal(std::string_view("a=\0", 3)), "contains a zero byte");
    EXPECT_EQ(pairs_refusal(std::string(kMaxConfigBytes + 1, ' ')), "is larger than 262144 bytes");
}

TEST(ConfigPairs, NeverQuotesTheText)
{
    for (const char *text :
         {"sasl.password=my sesame", "sasl.password='sesame", "sasl.password=my sesa$me=1",
          "sasl.password='x'sesame", "sesame!=1", "x=sesame\\"})
    {
        const ParsedConfig config = parse_config_pairs(text);
        ASSERT_FALSE(config.verdict.ok) << text;
        EXPECT_EQ(std::string(config.verdict.reason).find("sesa"), std::string::npos) << text;
        EXPECT_EQ(std::string(config.verdict.hint).find("sesa"), std::string::npos) << text;
    }
}

// Any value survives quoting and parsing.
TEST(ConfigPairs, TakesAnyQuotedValueBack)
{
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    for (int i = 0; i < 5000; ++i)
    {
        std::string value;
        std::string quoted;
        for (unsigned n = random() % 12; n > 0; --n)
        {
            const char c = random() % 2 != 0 ? "'\\ =\t\n"[random() % 6]
                                             : static_cast<char>(1 + random() % 255);
            value += c;
            quoted += c == '\'' || c == '\\' ? std::string{'\\', c} : std::string{c};
        }
        ASSERT_EQ(pairs("a='" + quoted + "' b=1"), (Pairs{{"a", value}, {"b", "1"}}));
    }
}

TEST(ConfigFile, ReadsNothing)
{
    EXPECT_EQ(file(""), Pairs{});
    EXPECT_EQ(file("\n\r\n  \n# a comment = 1\n  ! another \\\n"), Pairs{});
}

TEST(ConfigFile, ReadsLines)
{
    EXPECT_EQ(file("a=1\nb = 2 \t\r\n  c: 3"), (Pairs{{"a", "1"}, {"b", "2"}, {"c", "3"}}));
    EXPECT_EQ(file("a=\nb=x y # no comment"), (Pairs{{"a", ""}, {"b", "x y # no comment"}}));
    EXPECT_EQ(file("a=b=c:d"), (Pairs{{"a", "b=c:d"}}));
    EXPECT_EQ(file("a='x'"), (Pairs{{"a", "'x'"}}));
    EXPECT_EQ(file("\xEF\xBB\xBF"
                   "a=1"),
              (Pairs{{"a", "1"}}));
}

TEST(ConfigFile, ContinuesLines)
{
    EXPECT_EQ(file("a=x,\\\n   y,\\\r\n\tz\nb=1"), (Pairs{{"a", "x,y,z"}, {"b", "1"}}));
    EXPECT_EQ(file("a=x \\\ny"), (Pairs{{"a", "x y"}}));
    EXPECT_EQ(file("a=x\\\n"
                   "\nb=1"),
              (Pairs{{"a", "x"}, {"b", "1"}}));
    EXPECT_EQ(file("a=x\\\\\nb=1"), (Pairs{{"a", "x\\"}, {"b", "1"}}));
    EXPECT_EQ(file("a=\\\n# no comment"), (Pairs{{"a", "# no comment"}}));
}

TEST(ConfigFile, ResolvesEscapes)
{
    EXPECT_EQ(file(R"(a=\\ \=\:\#\!)"), (Pairs{{"a", "\\ =:#!"}}));
    EXPECT_EQ(file(R"(a=\t\n\r\fx)"), (Pairs{{"a", "\t\n\r\fx"}}));
    EXPECT_EQ(file("a=\\ x\\  \t"), (Pairs{{"a", " x "}}));
    EXPECT_EQ(file(R"(a=\u0041\u00f6\u20AC)"), (Pairs{{"a", "A\xC3\xB6\xE2\x82\xAC"}}));
}

TEST(ConfigFile, TellsWhereTheMistakeIs)
{
    EXPECT_EQ(file_refusal("a=1\n\n# x\njust text"), "has no \"=\" in line 4");
    EXPECT_EQ(file_refusal("a b=1"), "has something that is not a property name in line 1");
    EXPECT_EQ(file_refusal("=1"), "has something that is not a property name in line 1");
    EXPECT_EQ(file_refusal("\na=x\\"), "has a continuation but no next line in line 2");
    EXPECT_EQ(file_refusal("a=\\\nx\\q"),
              "has a backslash before a character that needs none in line 2");
    for (const char *text : {"a=\\u12", "a=\\u12g4", "a=\\u0000", "a=\\ud83d\\ude00", "a=\\u"})
        EXPECT_EQ(file_refusal(text),
                  "has a \\u escape that is not four hexadecimal digits of a character in line 1")
            << text;
    EXPECT_EQ(file_refusal(std::string_view("a=\0", 3)), "contains a zero byte");
    EXPECT_EQ(file_refusal(std::string(kMaxConfigBytes + 1, '\n')), "is larger than 262144 bytes");
}

TEST(ConfigFile, NeverQuotesTheText)
{
    for (const char *text : {"sesame", "sesame x=1", "sasl.password=sesame\\q", "a=sesame\\"})
        EXPECT_EQ(file_refusal(text).find("sesame"), std::string::npos) << text;
}

// Random bytes end in an answer, never in a crash or a loop; run under the sanitizers.
TEST(ConfigParsers, SurviveRandomText)
{
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    for (int i = 0; i < 20000; ++i)
    {
        std::string text;
        for (unsigned n = random() % 40; n > 0; --n)
            text += random() % 4 != 0 ? "ab=: \\'#!\n\ru09"[random() % 14]
                                      : static_cast<char>(random() % 256);
        const ParsedConfig pair_config = parse_config_pairs(text);
        const ParsedConfig file_config = parse_config_file(text);
        ASSERT_TRUE(pair_config.verdict.ok || pair_config.properties.empty());
        ASSERT_TRUE(file_config.verdict.ok || file_config.properties.empty());
    }
}

TEST(CheckProperties, NamesTheFirstRefusedProperty)
{
    EXPECT_TRUE(check_properties({}).ok);
    EXPECT_TRUE(check_properties({{"linger.ms", "5"}, {"acks", "all"}}).ok);
    const Verdict verdict = check_properties({{"linger.ms", "5"}, {"acks", "0"}, {"retries", "1"}});
    EXPECT_FALSE(verdict.ok);
    EXPECT_STREQ(verdict.reason,
                 "property \"acks\" with value \"0\" would lose events when a broker fails");
    EXPECT_STREQ(verdict.hint, "Remove it; outbox always publishes with acks=all.");
}

TEST(CheckProperties, DoesNotShowASecret)
{
    const Verdict verdict = check_properties({{"ssl.truststore.password", "sesame"}});
    ASSERT_FALSE(verdict.ok);
    EXPECT_EQ(std::string(verdict.reason).find("sesame"), std::string::npos);
    EXPECT_NE(std::string(verdict.reason).find("ssl.truststore.password"), std::string::npos);
}

// It may be a secret in the wrong place, or of another file that was named by mistake.
TEST(CheckProperties, DoesNotShowAValueFromTheFile)
{
    for (const char *text : {"root:x:0:0:sesame", "db.example:5432:orders:app:sesame",
                             "acks=0;sasl.password=sesame", "sasl.pasword=sesame"})
    {
        const ParsedConfig parsed = parse_config_file(text);
        ASSERT_TRUE(parsed.verdict.ok) << parsed.verdict.reason;
        const Verdict verdict = check_properties(parsed.properties);
        ASSERT_FALSE(verdict.ok) << text;
        EXPECT_EQ(std::string(verdict.reason).find("sesame"), std::string::npos) << verdict.reason;
        EXPECT_NE(std::string(verdict.reason).find(parsed.properties[0].name), std::string::npos);
    }
}

TEST(CheckProperties, CutsALongValue)
{
    const Verdict verdict = check_properties({{"transactional.id", std::string(100000, 'x')}});
    ASSERT_FALSE(verdict.ok);
    EXPECT_NE(std::string(verdict.reason).find("is set by the relay itself"), std::string::npos);
}

} // namespace

} // namespace outbox::test
