// How an event's texts become parts of subjects and headers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace outbox::nats
{

// A token of a subject may hold anything but these; "%" is how they are written.
constexpr bool
is_for_subject(char c) noexcept
{
    return static_cast<unsigned char>(c) > ' ' && c != '\x7f' && c != '*' && c != '>' && c != '%';
}

// Headers are lines, and "%" is how a character that would end one is written.
constexpr bool
is_for_header_value(char c) noexcept
{
    return static_cast<unsigned char>(c) >= ' ' && c != '\x7f' && c != '%';
}

constexpr bool
is_for_header_name(char c) noexcept
{
    return is_for_header_value(c) && c != ' ' && c != ':';
}

// What moves the cursor of a terminal, or ends a line of a log, becomes a blank: also what does in
// UTF-8.
inline void
blank_controls(char *text) noexcept
{
    for (char *c = text; *c != '\0'; c++)
    {
        const auto byte = static_cast<unsigned char>(*c);
        const auto next = static_cast<unsigned char>(c[1]);
        const bool wide = byte == 0xc2 && next >= 0x80 && next < 0xa0;
        if (wide)
            c[1] = ' ';
        if (wide || byte < ' ' || byte == 0x7f)
            *c = ' ';
    }
}

inline void
append_encoded(std::string &text, char c)
{
    constexpr char kDigits[] = "0123456789ABCDEF";
    const auto byte = static_cast<unsigned char>(c);
    text += '%';
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
}

// Appends `from`, with "%XX" for each byte that is not allowed.
template <bool (*is_allowed)(char) noexcept>
void
append_text(std::string &text, std::string_view from)
{
    for (;;)
    {
        const auto *end = std::find_if_not(from.begin(), from.end(), is_allowed);
        text.append(from.begin(), end);
        if (end == from.end())
            return;
        append_encoded(text, *end);
        from.remove_prefix(static_cast<std::size_t>(end - from.begin()) + 1);
    }
}

} // namespace outbox::nats
