#include "event_template.h"

#include <utility>

namespace outbox
{

namespace
{

bool
find_part(std::string_view name, EventPart &kind) noexcept
{
    constexpr std::pair<std::string_view, EventPart> kParts[] = {
        {"topic", EventPart::topic},
        {"aggregate_type", EventPart::aggregate_type},
        {"event_type", EventPart::event_type},
        {"key", EventPart::key}};
    for (const auto &known : kParts)
        if (known.first == name)
        {
            kind = known.second;
            return true;
        }
    return false;
}

} // namespace

Verdict
EventTemplate::parse(std::string_view text, const EventTemplateRule &rule, std::vector<Part> &parts)
{
    while (!text.empty())
    {
        const std::size_t brace = text.find_first_of("{}");
        const std::string_view literal = text.substr(0, brace);
        for (const char c : literal)
            if (!rule.is_literal(c))
                return refuse(rule.hint, "%s", rule.not_literal);
        if (!literal.empty())
            parts.push_back({EventPart::literal, std::string(literal)});
        if (brace == std::string_view::npos)
            break;
        const std::size_t end = text.find('}', brace);
        if (text[brace] == '}' || end == std::string_view::npos)
            return refuse(rule.hint, "has a brace without its counterpart");
        const std::string_view name = text.substr(brace + 1, end - brace - 1);
        Part part = {EventPart::literal, {}};
        if (!find_part(name, part.kind))
        {
            const std::string_view shown = clip(name, 64);
            return refuse(rule.hint, "has the unknown placeholder \"{%.*s}\"",
                          static_cast<int>(shown.size()), shown.data());
        }
        parts.push_back(std::move(part));
        text.remove_prefix(end + 1);
    }
    return {};
}

Verdict
EventTemplate::compile(std::string_view text, const EventTemplateRule &rule)
{
    if (text.size() > rule.max_length)
        return refuse(rule.hint, "is longer than %zu bytes", rule.max_length);
    std::vector<Part> parts;
    const Verdict verdict = parse(text, rule, parts);
    if (verdict.ok)
        parts_ = std::move(parts);
    return verdict;
}

std::string_view
EventTemplate::text_of(const Part &part, const EventNames &names) noexcept
{
    switch (part.kind)
    {
    case EventPart::literal:
        return part.text;
    case EventPart::topic:
        return names.topic;
    case EventPart::aggregate_type:
        return names.aggregate_type;
    case EventPart::event_type:
        return names.event_type;
    case EventPart::key:
        return names.key;
    }
    return {};
}

} // namespace outbox
