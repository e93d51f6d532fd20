// JSON that remembers which of its values stands on which line.
#pragma once

#include "contract_markdown.h"

#include <nlohmann/json.hpp>

#include <map>
#include <optional>
#include <string>

namespace outbox::ctl
{

// A value and, by JSON pointer, the line of each value in it (of a member: that of its name).
struct LinedJson
{
    nlohmann::json value;
    std::map<std::string, int> lines;
    // Of the first string or name with U+0000, which PostgreSQL's jsonb cannot hold; 0: none.
    int zero_line = 0;

    // The line of what is there, or of the nearest that is around it.
    int line_of(std::string pointer) const;
};

// Reads one JSON document whose first line is `first_line`. Broken JSON, a byte order mark, a name
// that an object has twice, and what is nested more than 64 deep become problems, and then there is
// no value.
std::optional<LinedJson> read_json(const std::string &text, int first_line, Problems &problems);

// A reference token of a JSON pointer, "~" and "/" escaped.
std::string escaped_token(const std::string &name);

} // namespace outbox::ctl
