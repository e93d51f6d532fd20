#include "subject.h"

#include "text.h"

#include <utility>

namespace outbox::nats
{

namespace
{

constexpr char kRule[] = "A subject is made of tokens with dots between them; {topic}, "
                         "{aggregate_type}, {event_type} and {key} stand for those of the event.";

// Dots make tokens, and no token may be empty: a dot where one would be is written as "%2E".
void
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

bool
has_empty_token(std::string_view subject) noexcept
{
    return subject.empty() || subject.front() == '.' || subject.back() == '.' ||
           subject.find("..") != std::string_view::npos;
}

} // namespace

bool
SubjectTemplate::find_kind(std::string_view name, Kind &kind) noexcept
{
    constexpr std::pair<std::string_view, Kind> kKinds[] = {{"topic", Kind::topic},
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

Verdict
SubjectTemplate::parse(std::string_view text, std::vector<Part> &parts)
{
    while (!text.empty())
    {
        const std::size_t brace = text.find_first_of("{}");
        const std::string_view literal = text.substr(0, brace);
        for (const char c : literal)
            if (!is_for_subject(c))
                return refuse(kRule, "contains a space, a control character, \"*\", \">\" or \"%%\"");
        if (!literal.empty())
            parts.push_back({Kind::literal, std::string(literal)});
        if (brace == std::string_view::npos)
            break;
        const std::size_t end = text.find('}', brace);
        if (text[brace] == '}' || end == std::string_view::npos)
            return refuse(kRule, "has a brace without its counterpart");
        const std::string_view name = text.substr(brace + 1, end - brace - 1);
        Part part;
        if (!find_kind(name, part.kind))
        {
            const std::string_view shown = clip(name, 64);
            return refuse(kRule, "has the unknown placeholder \"{%.*s}\"",
                          static_cast<int>(shown.size()), shown.data());
        }
        parts.push_back(std::move(part));
        text.remove_prefix(end + 1);
    }
    return {};
}

Verdict
SubjectTemplate::compile(std::string_view text)
{
    if (text.size() > kMaxSubjectLength / 2)
        return refuse(kRule, "is longer than %zu bytes", kMaxSubjectLength / 2);
    std::vector<Part> parts;
    if (const Verdict verdict = parse(text, parts); !verdict.ok)
        return verdict;
    std::string sample; // with a value that is one token
    for (const Part &part : parts)
        sample += part.kind == Kind::literal ? part.text : "x";
    if (has_empty_token(sample))
        return refuse(kRule, "has a token that is empty");
    if (sample.front() == '$' || sample.front() == '_')
        return refuse("Such subjects are for the server and for its clients' own use.",
                      "begins with \"%c\"", sample.front());
    parts_ = std::move(parts);
    return {};
}

const char *
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
            append_value(subject, values.topic, false);
            break;
        case Kind::aggregate_type:
            append_value(subject, values.aggregate_type, false);
            break;
        case Kind::event_type:
            append_value(subject, values.event_type, false);
            break;
        case Kind::key:
            append_value(subject, values.key, true);
            break;
        }
        if (subject.size() > kMaxSubjectLength)
            return "is longer than 1024 bytes";
    }
    return has_empty_token(subject) ? "has a token that is empty, as the event has no value for it"
                                    : nullptr;
}

} // namespace outbox::nats
