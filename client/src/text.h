// The few texts that the client writes for PostgreSQL and reads from records.
#pragma once

#include "outbox/export.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace outbox::v0::detail
{

// A JSON object of strings.
std::string json_object(const std::map<std::string, std::string> &members);

// An array literal of PostgreSQL, element by element.
class ArrayLiteral
{
public:
    void add(std::string_view element);
    void add_null();
    void add_bytes(std::string_view bytes); // as bytea's hex form
    // The whole literal. The object can be used again afterwards.
    std::string finish();

private:
    void begin_element();

    std::string text_ = "{";
};

// A UUID in its 36 character form, in lower case; nothing if `text` is none.
std::optional<std::string> parse_uuid(std::string_view text);

// Throws UsageError if `text` contains a zero byte: libpq would take the text to end there.
void require_text(const char *name, std::string_view text);
// The same for one that must not be empty.
void require_value(const char *name, std::string_view text);

// How many characters a text in UTF-8 has.
std::size_t characters(std::string_view text);

// At most `max_bytes` of a text, not ending within a UTF-8 character.
std::string clip(std::string_view text, std::size_t max_bytes);

} // namespace outbox::v0::detail
