// From an event to the subject it is published on.
#pragma once

#include "extension/core/verdict.h"

#include <cstddef>
#include <string>
#include <string_view>
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

} // namespace outbox::nats
