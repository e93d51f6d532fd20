// The options of a subscription that are its sink's own, as plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace outbox
{

// What is wrong with options, in the parts of a PostgreSQL error. None of them shows a secret.
struct OptionFault
{
    std::string message; // begins with a small letter and has no full stop
    std::string detail;  // a sentence, or empty
    std::string hint;    // the same
};

// The value of one option. A number is kept as it was written, so that none loses digits.
struct OptionValue
{
    enum class Kind : unsigned char
    {
        text,
        number,
        boolean, // its text is "true" or "false"
        object   // of texts: members with a number or a boolean have its text
    };

    Kind kind = Kind::text;
    std::string text;
    std::vector<std::pair<std::string, std::string>> members; // of an object, in jsonb's order

    bool operator==(const OptionValue &other) const
    {
        return kind == other.kind && text == other.text && members == other.members;
    }
    bool operator!=(const OptionValue &other) const { return !(*this == other); }
};

// Names and values, each name once. Everything here may throw std::bad_alloc, and nothing else.
class SinkOptions
{
public:
    void set(std::string name, OptionValue value);
    void set_text(std::string name, std::string text)
    {
        set(std::move(name), {OptionValue::Kind::text, std::move(text), {}});
    }

    // Null: it was not given.
    const OptionValue *find(std::string_view name) const noexcept;
    bool has(std::string_view name) const noexcept { return find(name) != nullptr; }
    // The text of one that is there, whatever its kind; `otherwise` if it is not.
    std::string_view text(std::string_view name, std::string_view otherwise = {}) const noexcept;

    const std::vector<std::pair<std::string, OptionValue>> &all() const noexcept { return all_; }
    bool operator==(const SinkOptions &other) const { return all_ == other.all_; }
    bool operator!=(const SinkOptions &other) const { return all_ != other.all_; }

private:
    std::vector<std::pair<std::string, OptionValue>> all_; // by name
};

// The usual checks of one option. Each returns false and fills `fault` when the option is there and
// is no such value, and leaves `value` as it is when it is not there.
bool read_text(const SinkOptions &options, std::string_view name, std::string &value,
               OptionFault &fault);
bool read_boolean(const SinkOptions &options, std::string_view name, bool &value,
                  OptionFault &fault);
// A whole number from `least` to `most`.
bool read_integer(const SinkOptions &options, std::string_view name, std::int64_t least,
                  std::int64_t most, std::int64_t &value, OptionFault &fault);
// A time in the notation of PostgreSQL's settings, "500ms", "15s", "2min", "1h", or a number of
// milliseconds; `value` is in milliseconds.
bool read_duration(const SinkOptions &options, std::string_view name, std::int64_t least_ms,
                   std::int64_t most_ms, std::int64_t &value_ms, OptionFault &fault);
// A size: "64kB", "8MB", or a number of bytes (not of kB, as a setting would take it).
bool read_size(const SinkOptions &options, std::string_view name, std::int64_t least,
               std::int64_t most, std::int64_t &bytes, OptionFault &fault);
// One of these words.
bool read_choice(const SinkOptions &options, std::string_view name,
                 std::initializer_list<std::string_view> words, std::string &value,
                 OptionFault &fault);
// Members of an object, each with a text.
bool read_members(const SinkOptions &options, std::string_view name,
                  std::vector<std::pair<std::string, std::string>> &members, OptionFault &fault);

} // namespace outbox

#ifdef POSTGRES_H
#error "extension/core must be included before PostgreSQL headers and never include them"
#endif
