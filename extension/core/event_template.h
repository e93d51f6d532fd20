// What a sink addresses an event to, from a template of its own such as "orders.{event_type}".
#pragma once

#include "verdict.h"

#include <string>
#include <string_view>
#include <vector>

namespace outbox
{

// What a template may name, as {topic}, {aggregate_type}, {event_type} and {key}.
struct EventNames
{
    std::string_view topic;
    std::string_view aggregate_type;
    std::string_view event_type;
    std::string_view key;
};

enum class EventPart : unsigned char
{
    literal,
    topic,
    aggregate_type,
    event_type,
    key
};

// What a sink makes of templates. The texts are those of a Verdict.
struct EventTemplateRule
{
    bool (*is_literal)(char c) noexcept;
    const char *not_literal;
    const char *hint;
    std::size_t max_length;
};

class EventTemplate
{
public:
    struct Part
    {
        EventPart kind;
        std::string text; // of a literal
    };

    // Keeps what it was when `text` is refused. May throw std::bad_alloc.
    Verdict compile(std::string_view text, const EventTemplateRule &rule);

    const std::vector<Part> &parts() const noexcept { return parts_; }

    // What a part is for an event.
    static std::string_view text_of(const Part &part, const EventNames &names) noexcept;

private:
    static Verdict parse(std::string_view text, const EventTemplateRule &rule,
                         std::vector<Part> &parts);

    std::vector<Part> parts_;
};

} // namespace outbox
