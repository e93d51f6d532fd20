#include "topic_template.h"

#include "characters.h"

#include <array>
#include <cstring>

namespace outbox
{

const char *const kTopicNameRule =
    "A Kafka topic name has 1 to 249 of the characters a-z, A-Z, 0-9, "
    "\".\", \"_\" and \"-\", and is not \".\" or \"..\".";

namespace
{

constexpr const char *kEmpty = "is empty";
constexpr const char *kTooLong = "is longer than 249 characters";
constexpr const char *kBadCharacter = "contains a character that Kafka does not take";
constexpr const char *kDots = "is \".\" or \"..\"";

constexpr const char *kPlaceholderHint = "The placeholders are {aggregate_type} and {event_type}; "
                                         "a template without one is a fixed topic.";

constexpr std::array<bool, 256>
make_legal_table()
{
    std::array<bool, 256> legal{};
    for (int c = 0; c < 256; ++c)
        legal[static_cast<std::size_t>(c)] = is_name_character(static_cast<char>(c));
    return legal;
}

constexpr std::array<bool, 256> kLegal = make_legal_table();

bool
all_legal(std::string_view text) noexcept
{
    bool legal = true;
    for (char c : text)
        legal = legal && kLegal[static_cast<unsigned char>(c)];
    return legal;
}

bool
is_dots(std::string_view name) noexcept
{
    return name == "." || name == "..";
}

int
print_width(std::string_view text) noexcept
{
    return static_cast<int>(text.size());
}

} // namespace

const char *
check_topic_name(std::string_view name) noexcept
{
    if (name.empty())
        return kEmpty;
    if (name.size() > kMaxTopicLength)
        return kTooLong;
    if (!all_legal(name))
        return kBadCharacter;
    return is_dots(name) ? kDots : nullptr;
}

// Adds literal text to the compiled form; false when it is full.
bool
TopicTemplate::append_literal(std::string_view text) noexcept
{
    if (text.empty())
        return true;
    if (part_count_ == kMaxParts || text.size() > kMaxTopicLength - literal_length_)
        return false;
    Part &part = parts_[part_count_++];
    part.kind = Kind::literal;
    part.offset = static_cast<std::uint8_t>(literal_length_);
    part.length = static_cast<std::uint8_t>(text.size());
    std::memcpy(literals_ + literal_length_, text.data(), text.size());
    literal_length_ += text.size();
    return true;
}

bool
TopicTemplate::append_placeholder(Kind kind) noexcept
{
    if (part_count_ == kMaxParts)
        return false;
    parts_[part_count_++].kind = kind;
    return true;
}

// Reads the placeholder at the start of `*rest`, which begins with "{", and moves `*rest` behind
// it.
Verdict
TopicTemplate::parse_placeholder(std::string_view *rest) noexcept
{
    const std::size_t close = rest->find('}');
    if (close == std::string_view::npos)
        return refuse(kPlaceholderHint, "has a \"{\" without a \"}\"");
    const std::string_view name = rest->substr(1, close - 1);
    rest->remove_prefix(close + 1);

    Kind kind = Kind::aggregate_type;
    if (name == "event_type")
        kind = Kind::event_type;
    else if (name != "aggregate_type")
    {
        const std::string_view shown = clip(name, 64);
        return refuse(kPlaceholderHint, "has the unknown placeholder \"{%.*s}\"",
                      print_width(shown), shown.data());
    }
    if (!append_placeholder(kind))
        return refuse(kPlaceholderHint, "has too many placeholders");
    return {};
}

// Fills this empty template from `text`.
Verdict
TopicTemplate::parse(std::string_view text) noexcept
{
    if (text.empty())
        return refuse(kPlaceholderHint, "%s", kEmpty);

    std::string_view rest = text;
    while (!rest.empty())
    {
        if (rest.front() == '{')
        {
            Verdict verdict = parse_placeholder(&rest);
            if (!verdict.ok)
                return verdict;
            continue;
        }
        const std::string_view literal = rest.substr(0, rest.find('{'));
        if (literal.find('}') != std::string_view::npos)
            return refuse(kPlaceholderHint, "has a \"}\" without a \"{\"");
        if (!all_legal(literal))
            return refuse(kTopicNameRule, "%s", kBadCharacter);
        if (!append_literal(literal))
            return refuse(kTopicNameRule, "is too long");
        rest.remove_prefix(literal.size());
    }
    const bool is_fixed = part_count_ == 1 && parts_[0].kind == Kind::literal;
    if (is_fixed && is_dots(text))
        return refuse(kTopicNameRule, "%s", kDots);
    return {};
}

Verdict
TopicTemplate::compile(std::string_view text) noexcept
{
    TopicTemplate fresh;
    Verdict verdict = fresh.parse(text);
    if (verdict.ok)
        *this = fresh;
    return verdict;
}

TopicName
TopicTemplate::expand(std::string_view aggregate_type, std::string_view event_type, char *buffer,
                      std::size_t capacity) const noexcept
{
    const std::size_t limit = capacity < kMaxTopicLength ? capacity : kMaxTopicLength;
    std::size_t length = 0;
    for (std::size_t i = 0; i < part_count_; ++i)
    {
        const Part &part = parts_[i];
        std::string_view piece(literals_ + part.offset, part.length);
        if (part.kind != Kind::literal)
        {
            piece = part.kind == Kind::aggregate_type ? aggregate_type : event_type;
            if (piece.size() <= limit && !all_legal(piece))
                return {0, kBadCharacter};
        }
        if (piece.size() > limit - length)
            return {0, kTooLong};
        if (!piece.empty())
            std::memcpy(buffer + length, piece.data(), piece.size());
        length += piece.size();
    }
    if (length == 0)
        return {0, kEmpty};
    if (is_dots({buffer, length}))
        return {0, kDots};
    return {length, nullptr};
}

Verdict
check_template(std::string_view text) noexcept
{
    TopicTemplate scratch;
    return scratch.compile(text);
}

} // namespace outbox
