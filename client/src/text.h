// The few texts that the client writes for PostgreSQL and reads from records.
#pragma once

#include "outbox/export.h"

#include <exception>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace outbox::v0::detail
{

// The number of libpq for UTF-8.
int utf8();

// How many bytes the first character of a text has; 1 for what is none. In SJIS, BIG5, GBK and the
// like a byte that looks like a backslash or a quote may be the second one of a character.
std::size_t character_size(std::string_view text, int encoding);

// Adds two digits, in lower case, for each byte.
void append_hex(std::string &to, std::string_view bytes);

// A JSON object of strings, which are in the encoding of that number, as PQclientEncoding() gives
// it.
std::string json_object(const std::map<std::string, std::string> &members, int encoding = utf8());

// An array literal of PostgreSQL, element by element.
class ArrayLiteral
{
public:
    explicit ArrayLiteral(int encoding = utf8()) : encoding_(encoding) {}

    void add(std::string_view element);
    void add_null();
    // The whole literal. The object can be used again afterwards.
    std::string finish();

private:
    void begin_element();

    int encoding_;
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

// A text that a server sent, such as an error's message: as it is, or its first 8 kB, not ending
// within a character of that encoding, and a word of how long it was.
std::string bounded(std::string_view text, int encoding = utf8());

// The text without line breaks and other control characters: each row of them is a space, and none
// at the end.
std::string one_line(std::string_view text);

// What an exception says. One whose what() is null says its type.
std::string message_of(const std::exception &error);
// Of the one that is being handled, whatever it is.
std::string message_of_thrown();

} // namespace outbox::v0::detail
