// From an event to the subject it is published on. All of it is here, as options.cpp alone is
// compiled into outbox.so, and has to check templates.
#pragma once

#include "extension/core/verdict.h"

#include "text.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace outbox::nats
{

// A subject, the inbox for the answer and two sizes share a line of the protocol, of which a server
// takes 4,096 bytes unless it is configured otherwise.
constexpr std::size_t kMaxSubjectLength = 1024;

// What a template may name.
struct SubjectValues
{
    std::string_view topic;
    std::string_view aggregate_type;
    std::string_view event_type;
    std::string_view key;
};

// A template such as "orders.{event_type}". Values keep their dots, as types are often written in
// the way of subjects; only a key is always one token. A character that a subject cannot hold is
// written as "%" and two digits. No value can lead out of the space of applications: a subject
// never begins with "$" or "_", which are the server's and the clients' own.
class SubjectTemplate
{
public:
    // Keeps what it was when `text` is refused. May throw std::bad_alloc.
    Verdict compile(std::string_view text);

    // Writes the subject into `subject`. Returns nullptr, or what is wrong with it, which completes
    // a sentence that begins with "the subject". May throw std::bad_alloc.
    const char *expand(const SubjectValues &values, std::string &subject) const;

private:
    enum class Kind : unsigned char
    {
        literal,
        topic,
        aggregate_type,
        event_type,
        key
    };
    struct Part
    {
        Kind kind = Kind::literal;
        std::string text;
    };
    static bool find_kind(std::string_view name, Kind &kind) noexcept;
    static Verdict parse(std::string_view text, std::vector<Part> &parts);

    std::vector<Part> parts_ = {{Kind::topic, ""}};
};

namespace detail
{

inline constexpr char kSubjectRule[] =
    "A subject is made of tokens with dots between them; {topic}, "
    "{aggregate_type}, {event_type} and {key} stand for those of the event.";

// Dots make tokens, and no token may be empty: a dot where one would be is written as "%2E".
inline void
append_value(std::string &subject, std::string_view value, bool one_token)
{
    for (std::size_t i = 0; i < value.size(); i++)
    {
        const char c = value[i];
        const bool first = subject.empty();
        const bool begins = first || subject.back() == '.';
        const bool ends = i + 1 == value.size();
        if (c == '.' ? one_token || begins || ends
                     : !is_for_subject(c) || (first && (c == '$' || c == '_')))
            append_encoded(subject, c);
        else
            subject += c;
    }
}

inline bool
has_empty_token(std::string_view subject) noexcept
{
    return subject.empty() || subject.front() == '.' || subject.back() == '.' ||
           subject.find("..") != std::string_view::npos;
}

} // namespace detail

inline bool
SubjectTemplate::find_kind(std::string_view name, Kind &kind) noexcept
{
    constexpr std::pair<std::string_view, Kind> kKinds[] = {
        {"topic", Kind::topic},
        {"aggregate_type", Kind::aggregate_type},
        {"event_type", Kind::event_type},
        {"key", Kind::key}};
    for (const auto &known : kKinds)
        if (known.first == name)
        {
            kind = known.second;
            return true;
        }
    return false;
}

inline Verdict
SubjectTemplate::parse(std::string_view text, std::vector<Part> &parts)
{
    while (!text.empty())
    {
        const std::size_t brace = text.find_first_of("{}");
        const std::string_view literal = text.substr(0, brace);
        for (const char c : literal)
            if (!is_for_subject(c))
                return refuse(detail::kSubjectRule,
                              "contains a space, a control character, \"*\", \">\" or \"%%\"");
        if (!literal.empty())
            parts.push_back({Kind::literal, std::string(literal)});
        if (brace == std::string_view::npos)
            break;
        const std::size_t end = text.find('}', brace);
        if (text[brace] == '}' || end == std::string_view::npos)
            return refuse(detail::kSubjectRule, "has a brace without its counterpart");
        const std::string_view name = text.substr(brace + 1, end - brace - 1);
        Part part;
        if (!find_kind(name, part.kind))
        {
            const std::string_view shown = clip(name, 64);
            return refuse(detail::kSubjectRule, "has the unknown placeholder \"{%.*s}\"",
                          static_cast<int>(shown.size()), shown.data());
        }
        parts.push_back(std::move(part));
        text.remove_prefix(end + 1);
    }
    return {};
}

inline Verdict
SubjectTemplate::compile(std::string_view text)
{
    if (text.size() > kMaxSubjectLength / 2)
        return refuse(detail::kSubjectRule, "is longer than %zu bytes", kMaxSubjectLength / 2);
    std::vector<Part> parts;
    if (const Verdict verdict = parse(text, parts); !verdict.ok)
        return verdict;
    std::string sample; // with a value that is one token
    for (const Part &part : parts)
        sample += part.kind == Kind::literal ? part.text : "x";
    if (detail::has_empty_token(sample))
        return refuse(detail::kSubjectRule, "has a token that is empty");
    if (sample.front() == '$' || sample.front() == '_')
        return refuse("Such subjects are for the server and for its clients' own use.",
                      "begins with \"%c\"", sample.front());
    parts_ = std::move(parts);
    return {};
}

inline const char *
SubjectTemplate::expand(const SubjectValues &values, std::string &subject) const
{
    subject.clear();
    for (const Part &part : parts_)
    {
        switch (part.kind)
        {
        case Kind::literal:
            subject += part.text;
            break;
        case Kind::topic:
            detail::append_value(subject, values.topic, false);
            break;
        case Kind::aggregate_type:
            detail::append_value(subject, values.aggregate_type, false);
            break;
        case Kind::event_type:
            detail::append_value(subject, values.event_type, false);
            break;
        case Kind::key:
            detail::append_value(subject, values.key, true);
            break;
        }
        if (subject.size() > kMaxSubjectLength)
            return "is longer than 1024 bytes";
    }
    return detail::has_empty_token(subject)
               ? "has a token that is empty, as the event has no value for it"
               : nullptr;
}

} // namespace outbox::nats
