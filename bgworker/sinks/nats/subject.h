// From an event to the subject it is published on. All of it is here, as options.cpp alone is
// compiled into outbox.so, and has to check templates.
#pragma once

#include "extension/core/event_template.h"

#include "text.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace outbox::nats
{

// A subject, the inbox for the answer and two sizes share a line of the protocol, of which a server
// takes 4,096 bytes unless it is configured otherwise.
constexpr std::size_t kMaxSubjectLength = 1024;

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
    const char *expand(const EventNames &names, std::string &subject) const;

private:
    EventTemplate template_;
};

namespace detail
{

inline constexpr EventTemplateRule kSubjectRule = {
    is_for_subject, "contains a space, a control character, \"*\", \">\" or \"%\"",
    "A subject is made of tokens with dots between them; {topic}, {aggregate_type}, {event_type} "
    "and {key} stand for those of the event.",
    kMaxSubjectLength / 2};

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

inline Verdict
SubjectTemplate::compile(std::string_view text)
{
    EventTemplate compiled;
    if (const Verdict verdict = compiled.compile(text, detail::kSubjectRule); !verdict.ok)
        return verdict;
    std::string sample; // with a value that is one token
    for (const EventTemplate::Part &part : compiled.parts())
        sample += part.kind == EventPart::literal ? part.text : "x";
    if (detail::has_empty_token(sample))
        return refuse(detail::kSubjectRule.hint, "has a token that is empty");
    if (sample.front() == '$' || sample.front() == '_')
        return refuse("Such subjects are for the server and for its clients' own use.",
                      "begins with \"%c\"", sample.front());
    template_ = std::move(compiled);
    return {};
}

inline const char *
SubjectTemplate::expand(const EventNames &names, std::string &subject) const
{
    subject.clear();
    for (const EventTemplate::Part &part : template_.parts())
    {
        if (part.kind == EventPart::literal)
            subject += part.text;
        else
            detail::append_value(subject, EventTemplate::text_of(part, names),
                                 part.kind == EventPart::key);
        if (subject.size() > kMaxSubjectLength)
            return "is longer than 1024 bytes";
    }
    return detail::has_empty_token(subject)
               ? "has a token that is empty, as the event has no value for it"
               : nullptr;
}

} // namespace outbox::nats
