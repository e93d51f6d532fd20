// JSON whose members keep the order in which they are documented, and whose numbers keep their
// digits.
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace outbox::ctl
{

// Made here, and printed. What the database has as a number or as JSON is never read into it: a
// number would become a double. It stays a text, see written().
using Json = nlohmann::ordered_json;

// The value, or null.
template <class Value>
Json
or_null(const std::optional<Value> &value)
{
    return value ? Json(*value) : Json(nullptr);
}

// A number or a whole document as PostgreSQL wrote it; it is printed as it stands.
Json written(std::string_view json);

// PostgreSQL's text of a number: as written, or as a string when JSON has no such number (NaN,
// Infinity), which is what PostgreSQL itself makes of it.
Json number(std::string_view text);

// One line of JSON. What is_hidden() is escaped; bytes that are no UTF-8, which JSON cannot have,
// become U+FFFD.
std::string to_line(const Json &json);

// The same over several lines. Deep nesting is not indented without end.
std::string to_lines(const Json &json);

// A document as PostgreSQL wrote it, for a person: indented, with what is_hidden() escaped as JSON
// has it, and bytes that are no UTF-8 as \xNN.
std::string indented(std::string_view json);

} // namespace outbox::ctl
