// How an event's texts become parts of subjects and headers.
#pragma once

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

inline void
append_encoded(std::string &text, char c)
{
    constexpr char kDigits[] = "0123456789ABCDEF";
    const auto byte = static_cast<unsigned char>(c);
    text += '%';
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
}

// Appends `from`, with "%XX" for each byte that `allowed` does not take.
template <typename F>
void
append_text(std::string &text, std::string_view from, F allowed)
{
    for (const char c : from)
    {
        if (allowed(c))
            text += c;
        else
            append_encoded(text, c);
    }
}

} // namespace outbox::nats
