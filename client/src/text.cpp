#include "text.h"

#include "outbox/error.h"

#include <algorithm>
#include <typeinfo>
#include <utility>

#include <libpq-fe.h>

namespace outbox::v0::detail
{

namespace
{

void
append_json_string(std::string &to, std::string_view text, int encoding)
{
    to += '"';
    for (std::size_t i = 0, size = 0; i < text.size(); i += size)
    {
        const char c = text[i];
        size = character_size(text.substr(i), encoding);
        if (size > 1)
            to.append(text.substr(i, size));
        else if (c == '"' || c == '\\')
            to.append(1, '\\').append(1, c);
        else if (static_cast<unsigned char>(c) < 0x20)
            append_hex(to.append("\\u00"), text.substr(i, 1));
        else
            to += c;
    }
    to += '"';
}

} // namespace

int
utf8()
{
    static const int number = pg_char_to_encoding("UTF8");
    return number;
}

std::size_t
character_size(std::string_view text, int encoding)
{
    const int size = PQmblen(text.data(), encoding);
    // A character that the text ends within is for the server to refuse.
    return std::clamp<std::size_t>(static_cast<std::size_t>(std::max(size, 1)), 1, text.size());
}

void
append_hex(std::string &to, std::string_view bytes)
{
    constexpr const char *kDigits = "0123456789abcdef";
    for (const char c : bytes)
        to.append(1, kDigits[static_cast<unsigned char>(c) >> 4])
            .append(1, kDigits[static_cast<unsigned char>(c) & 0xF]);
}

std::string
json_object(const std::map<std::string, std::string> &members, int encoding)
{
    std::string text = "{";
    for (const auto &[name, value] : members)
    {
        if (text.size() > 1)
            text += ',';
        append_json_string(text, name, encoding);
        text += ':';
        append_json_string(text, value, encoding);
    }
    return text + '}';
}

void
ArrayLiteral::begin_element()
{
    if (text_.size() > 1)
        text_ += ',';
}

void
ArrayLiteral::add(std::string_view element)
{
    begin_element();
    text_ += '"';
    for (std::size_t i = 0, size = 0; i < element.size(); i += size)
    {
        size = character_size(element.substr(i), encoding_);
        if (size == 1 && (element[i] == '"' || element[i] == '\\'))
            text_ += '\\';
        text_ += element.substr(i, size);
    }
    text_ += '"';
}

void
ArrayLiteral::add_null()
{
    begin_element();
    text_ += "NULL";
}

std::string
ArrayLiteral::finish()
{
    std::string whole = std::move(text_);
    whole += '}';
    text_ = "{";
    return whole;
}

std::optional<std::string>
parse_uuid(std::string_view text)
{
    constexpr std::size_t kLength = 36;
    if (text.size() != kLength)
        return std::nullopt;
    std::string uuid(text);
    for (std::size_t i = 0; i < kLength; ++i)
    {
        char &c = uuid[i];
        const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (c >= 'A' && c <= 'F')
            c = static_cast<char>(c - 'A' + 'a');
        const bool hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
        if (dash ? c != '-' : !hex)
            return std::nullopt;
    }
    return uuid;
}

void
require_text(const char *name, std::string_view text)
{
    if (text.find('\0') != std::string_view::npos)
        throw UsageError(std::string(name) + " contains a zero byte");
}

void
require_value(const char *name, std::string_view text)
{
    if (text.empty())
        throw UsageError(std::string(name) + " is empty");
    require_text(name, text);
}

std::size_t
characters(std::string_view text)
{
    return static_cast<std::size_t>(
        std::count_if(text.begin(), text.end(),
                      [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string
bounded(std::string_view text, int encoding)
{
    constexpr std::size_t kMost = 8192;
    if (text.size() <= kMost)
        return std::string(text);
    std::size_t end = 0;
    for (std::size_t next = 0; next <= kMost; next += character_size(text.substr(next), encoding))
        end = next;
    return std::string(text.substr(0, end)) + "... (cut off; it has " +
           std::to_string(text.size()) + " bytes)";
}

std::string
one_line(std::string_view text)
{
    std::string line;
    line.reserve(text.size());
    bool gap = false;
    for (const char c : text)
    {
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)
        {
            gap = true;
            continue;
        }
        if (gap && c == ' ') // how a line was indented
            continue;
        if (std::exchange(gap, false) && !line.empty() && line.back() != ' ')
            line += ' ';
        line += c;
    }
    return line;
}

std::string
message_of(const std::exception &error)
{
    const char *what = error.what();
    return what != nullptr ? what
                           : std::string("an exception of type ") + typeid(error).name() +
                                 " whose what() is null";
}

std::string
message_of_thrown()
try
{
    throw;
}
catch (const std::exception &error)
{
    return message_of(error);
}
catch (...)
{
    return "something was thrown that is no std::exception";
}

std::string
clip(std::string_view text, std::size_t max_bytes)
{
    if (text.size() <= max_bytes)
        return std::string(text);
    std::size_t end = max_bytes;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80)
        --end;
    return std::string(text.substr(0, end));
}

} // namespace outbox::v0::detail
