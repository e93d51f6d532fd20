// From an event's types to the Kafka topic it goes to.
#pragma once

#include "verdict.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace outbox
{

constexpr std::size_t kMaxTopicLength = 249;

// The rule that check_topic_name() enforces, as a sentence for hints.
extern const char *const kTopicNameRule;

// Returns nullptr when Kafka takes `name` as a topic name, else what is wrong with it ("is empty",
// ...).
const char *check_topic_name(std::string_view name) noexcept;

// A topic name, or why there is none. `error` completes a sentence that starts with "the topic
// name".
struct TopicName
{
    std::size_t length;
    const char *error;
};

// A template such as "outbox.event.{aggregate_type}", compiled. Constant-initialised and trivially
// destructible, so it can be a static variable of the server; expanding neither allocates nor
// throws.
class TopicTemplate
{
public:
    // Replaces the compiled form with that of `text`; keeps the old one when `text` is refused.
    Verdict compile(std::string_view text) noexcept;

    // Writes the topic name of these types into `buffer` (no terminating zero). The name is a legal
    // Kafka topic name whenever `error` is nullptr. kMaxTopicLength bytes are always enough.
    TopicName expand(std::string_view aggregate_type, std::string_view event_type, char *buffer,
                     std::size_t capacity) const noexcept;

private:
    enum class Kind : std::uint8_t
    {
        literal,
        aggregate_type,
        event_type
    };

    struct Part
    {
        Kind kind = Kind::literal;
        std::uint8_t offset = 0; // of a literal in literals_
        std::uint8_t length = 0;
    };

    static constexpr std::size_t kMaxParts = 16;

    bool append_literal(std::string_view text) noexcept;
    bool append_placeholder(Kind kind) noexcept;
    Verdict parse(std::string_view text) noexcept;
    Verdict parse_placeholder(std::string_view *rest) noexcept;

    Part parts_[kMaxParts] = {};
    std::size_t part_count_ = 0;
    char literals_[kMaxTopicLength] = {};
    std::size_t literal_length_ = 0;
};

// Whether compile() would take `text`.
Verdict check_template(std::string_view text) noexcept;

} // namespace outbox
