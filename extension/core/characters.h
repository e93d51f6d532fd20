// Character classes that do not depend on the server's locale.
#pragma once

namespace outbox
{

constexpr bool
is_digit(char c) noexcept
{
    return c >= '0' && c <= '9';
}

constexpr char
to_lower(char c) noexcept
{
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// The characters of Kafka topic names, librdkafka property names and host names.
constexpr bool
is_name_character(char c) noexcept
{
    return (to_lower(c) >= 'a' && to_lower(c) <= 'z') || is_digit(c) || c == '.' || c == '_' ||
           c == '-';
}

} // namespace outbox
