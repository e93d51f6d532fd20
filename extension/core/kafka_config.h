// Reads the two notations of librdkafka properties: the setting and the properties file.
#pragma once

#include "verdict.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace outbox
{

// The largest text either parser accepts; far above any real configuration, certificates included.
constexpr std::size_t kMaxConfigBytes = std::size_t{256} * 1024;

struct Property
{
    std::string name;
    std::string value;
    // Its value is in no message: it may be a secret under a wrong name, or the line of another
    // file that was named by mistake, and monitors and readers of the log may not read the file.
    bool from_file = false;
};

// When verdict is not ok, properties is empty. A reason names the place and never quotes the text,
// because a password with a forgotten quote would end up in the log.
struct ParsedConfig
{
    std::vector<Property> properties;
    Verdict verdict;
};

// Parses `name=value name2='a value'`, in libpq's connection-string notation: blanks around "=" are
// allowed, a backslash makes the next character literal, inside quotes and outside.
ParsedConfig parse_config_pairs(std::string_view text);

// Parses a Kafka client properties file (Java's notation): one `name=value` or `name: value` a
// line, comments with "#" or "!", a backslash at the end of a line continues it, and the escapes
// \\ \t \n \r \f \uXXXX and of blank and = : # ! are known. Others are refused, not dropped as
// Java does, so that a password with a single backslash is noticed. Blanks at a line's end are
// ignored.
ParsedConfig parse_config_file(std::string_view text);

// Refuses the first property that property_allowed() refuses, in a message that names the property,
// and its value unless that is a secret or comes from a file.
Verdict check_properties(const std::vector<Property> &properties) noexcept;

// Refuses the first property whose name says that it is a secret, without its value.
Verdict check_no_secrets(const std::vector<Property> &properties) noexcept;

} // namespace outbox
