// Options of sinks as plain values, their usual checks, and which sinks there are.
#include "extension/core/sink_kinds.h"

#include <gtest/gtest.h>

#include <limits>

namespace outbox
{

namespace
{

using Kind = OptionValue::Kind;

SinkOptions
with(const char *name, Kind kind, const char *text)
{
    SinkOptions options;
    options.set(name, {kind, text, {}});
    return options;
}

TEST(SinkOptions, AreFoundByTheirNames)
{
    SinkOptions options;
    options.set_text("b", "2");
    options.set_text("a", "1");
    options.set_text("b", "3");
    EXPECT_EQ(options.all().size(), 2U);
    EXPECT_EQ(options.text("a"), "1");
    EXPECT_EQ(options.text("b"), "3");
    EXPECT_EQ(options.text("c", "otherwise"), "otherwise");
    EXPECT_FALSE(options.has(""));
    SinkOptions same = options;
    EXPECT_TRUE(same == options);
    same.set("a", {Kind::number, "1", {}});
    EXPECT_TRUE(same != options);
}

TEST(SinkOptions, ATextIsNothingElse)
{
    OptionFault fault;
    std::string value = "before";
    EXPECT_TRUE(read_text({}, "x", value, fault));
    EXPECT_EQ(value, "before");
    EXPECT_FALSE(read_text(with("x", Kind::number, "1"), "x", value, fault));
    EXPECT_EQ(fault.message, "option \"x\" must be a string");
    EXPECT_TRUE(read_text(with("x", Kind::text, ""), "x", value, fault));
    EXPECT_EQ(value, "");
}

TEST(SinkOptions, ABooleanIsOneAlsoAsAWord)
{
    OptionFault fault;
    bool value = false;
    EXPECT_TRUE(read_boolean(with("x", Kind::boolean, "true"), "x", value, fault) && value);
    EXPECT_TRUE(read_boolean(with("x", Kind::text, "off"), "x", value, fault) && !value);
    EXPECT_FALSE(read_boolean(with("x", Kind::text, "yes"), "x", value, fault));
    EXPECT_FALSE(read_boolean(with("x", Kind::number, "1"), "x", value, fault));
    EXPECT_EQ(fault.message, "option \"x\" must be true or false");
}

TEST(SinkOptions, NumbersAreWholeAndInTheirRange)
{
    OptionFault fault;
    std::int64_t value = -1;
    const auto reads = [&](Kind kind, const char *text)
    { return read_integer(with("x", kind, text), "x", 1, 100, value, fault); };
    EXPECT_TRUE(reads(Kind::number, "100") && value == 100);
    EXPECT_TRUE(reads(Kind::text, "1") && value == 1);
    for (const char *text : {"0", "101", "-1", "9223372036854775807"})
    {
        EXPECT_FALSE(reads(Kind::number, text)) << text;
        EXPECT_EQ(fault.message, "option \"x\" is out of range");
        EXPECT_EQ(fault.detail, "It must be from 1 to 100.");
    }
    for (const char *text : {"", "x", "1.5", "1e2", "1 2", "9223372036854775808", "0x10", "+1"})
        EXPECT_FALSE(reads(Kind::number, text)) << text;
    EXPECT_FALSE(reads(Kind::boolean, "true"));
    EXPECT_EQ(value, 1);
}

TEST(SinkOptions, TimesAndSizesHaveUnits)
{
    OptionFault fault;
    std::int64_t value = 0;
    const auto time = [&](const char *text)
    {
        value = -1;
        return read_duration(with("x", Kind::text, text), "x", 1, 3600000, value, fault);
    };
    EXPECT_TRUE(time("15s") && value == 15000);
    EXPECT_TRUE(time("2 min") && value == 120000);
    EXPECT_TRUE(time("500") && value == 500);
    EXPECT_TRUE(time("500ms") && value == 500);
    EXPECT_TRUE(time("1h") && value == 3600000);
    for (const char *text : {"1d", "0", "-1s", "9223372036854775807d", "1 parsec", "s", "1.5s"})
        EXPECT_FALSE(time(text)) << text;
    const auto size = [&](const char *text)
    {
        value = -1;
        return read_size(with("x", Kind::text, text), "x", 1, std::numeric_limits<int>::max(),
                         value, fault);
    };
    EXPECT_TRUE(size("8MB") && value == 8 * 1024 * 1024);
    EXPECT_TRUE(size("64 kB") && value == 64 * 1024);
    EXPECT_TRUE(size("10") && value == 10);
    EXPECT_FALSE(size("8mb"));
    EXPECT_FALSE(size("8GB"));
}

TEST(SinkOptions, AChoiceNamesWhatThereIs)
{
    OptionFault fault;
    std::string value = "before";
    EXPECT_TRUE(read_choice(with("x", Kind::text, "b"), "x", {"a", "b"}, value, fault));
    EXPECT_EQ(value, "b");
    EXPECT_FALSE(read_choice(with("x", Kind::text, "c"), "x", {"a", "b"}, value, fault));
    EXPECT_EQ(fault.hint, "Available values: a, b.");
}

TEST(SinkOptions, AnObjectHasMembers)
{
    OptionFault fault;
    SinkOptions options;
    options.set("x", {Kind::object, "", {{"a", "1"}, {"b", "2"}}});
    std::vector<std::pair<std::string, std::string>> members;
    EXPECT_TRUE(read_members(options, "x", members, fault));
    EXPECT_EQ(members.size(), 2U);
    EXPECT_FALSE(read_members(with("x", Kind::text, "a"), "x", members, fault));
    EXPECT_EQ(fault.message, "option \"x\" must be an object");
}

TEST(SinkKinds, KafkaIsThereAndNeedsItsServers)
{
    const SinkKind *kafka = find_sink_kind("kafka");
    ASSERT_NE(kafka, nullptr);
    EXPECT_STREQ(kafka->library, "outbox_kafka");
    OptionFault fault;
    EXPECT_FALSE(kafka->check({}, fault));
    EXPECT_EQ(fault.message, "options must have \"bootstrap_servers\"");
    EXPECT_TRUE(kafka->check(with("bootstrap_servers", Kind::text, "a:1"), fault));
    EXPECT_EQ(find_sink_kind("pigeon"), nullptr);
    EXPECT_EQ(find_sink_kind(""), nullptr);
}

// What every sink promises of itself, however many there are.
TEST(SinkKinds, EachSaysAllThatItHasTo)
{
    int count = 0;
    for (const RegisteredSink *sink = first_sink(); sink != nullptr; sink = sink->next())
    {
        const SinkKind &kind = sink->kind();
        count++;
        EXPECT_EQ(find_sink_kind(kind.name), &kind) << kind.name << " is there twice";
        EXPECT_EQ(std::string(kind.library).substr(0, 7), "outbox_") << kind.name;
        ASSERT_TRUE(kind.options != nullptr && kind.settings != nullptr &&
                    kind.defaults != nullptr && kind.check != nullptr && kind.title != nullptr &&
                    kind.package != nullptr)
            << kind.name;
        OptionFault fault;
        if (!kind.check({}, fault))
        {
            EXPECT_FALSE(fault.message.empty()) << kind.name;
        }
        int words = 0;
        while (kind.defaults[words] != nullptr)
            words++;
        EXPECT_EQ(words % 2, 0) << kind.name;
    }
    EXPECT_GE(count, 1);
}

} // namespace

} // namespace outbox
