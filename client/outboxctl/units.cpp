#include "units.h"

#include "characters.h"

#include "extension/core/characters.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdint>

namespace outbox::ctl
{

namespace
{

std::string
escaped(const Character &character)
{
    constexpr std::uint32_t kBeyondBytes = 0x100;
    if (!character.valid || character.code >= kBeyondBytes)
        return character.valid ? fmt::format(character.code < 0x10000 ? "\\u{:04x}" : "\\U{:08x}",
                                             character.code)
                               : fmt::format("\\x{:02x}", character.code);
    if (character.bytes == "\n")
        return "\\n";
    if (character.bytes == "\t")
        return "\\t";
    if (character.bytes == "\r")
        return "\\r";
    std::string result;
    for (const char c : character.bytes)
        result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    return result;
}

} // namespace

std::string
with_commas(long long number)
{
    std::string digits = std::to_string(number);
    const std::size_t first = number < 0 ? 1 : 0;
    for (std::size_t place = digits.size(); place > first + 3;)
    {
        place -= 3;
        digits.insert(place, ",");
    }
    return digits;
}

std::string
counted(long long number, const std::string &noun)
{
    return with_commas(number) + " " + noun + (number == 1 ? "" : "s");
}

std::string
human_bytes(long long bytes)
{
    constexpr const char *kUnits[] = {"B", "kB", "MB", "GB", "TB"};
    auto value = static_cast<double>(bytes);
    std::size_t unit = 0;
    while (std::abs(value) >= 1024 && unit + 1 < std::size(kUnits))
    {
        value /= 1024;
        unit++;
    }
    return fmt::format(unit == 0 || value >= 10 ? "{:.0f} {}" : "{:.1f} {}", value, kUnits[unit]);
}

std::string
human_duration(double seconds)
{
    if (seconds < 0.0005)
        return "0 ms";
    if (seconds < 0.9995)
        return fmt::format("{:.0f} ms", seconds * 1000);
    if (seconds < 59.95)
        return fmt::format("{:.1f} s", seconds);
    const auto whole = static_cast<long long>(std::llround(seconds));
    const auto two = [](long long big, const char *unit, long long small, const char *rest)
    {
        return small == 0 ? fmt::format("{} {}", big, unit)
                          : fmt::format("{} {} {} {}", big, unit, small, rest);
    };
    if (whole < 3600)
        return two(whole / 60, "min", whole % 60, "s");
    if (whole < 86400)
        return two(whole / 3600, "h", whole % 3600 / 60, "min");
    return two(whole / 86400, "d", whole % 86400 / 3600, "h");
}

std::string
human_rate(double per_second)
{
    if (per_second >= 10 || per_second < 0.05)
        return with_commas(std::llround(per_second)) + " /s";
    return fmt::format("{:.1f} /s", per_second);
}

std::optional<double>
parse_duration(std::string_view text)
{
    double number = 0;
    const char *end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc() || !(number >= 0) || !(number <= 1e9))
        return std::nullopt;
    const std::string_view unit(rest, static_cast<std::size_t>(end - rest));
    if (unit == "ms")
        return number / 1000;
    if (unit.empty() || unit == "s")
        return number;
    if (unit == "m" || unit == "min")
        return number * 60;
    if (unit == "h")
        return number * 3600;
    if (unit == "d")
        return number * 86400;
    return std::nullopt;
}

std::string
lower(std::string text)
{
    for (char &c : text)
        c = to_lower(c);
    return text;
}

std::string
upper(std::string text)
{
    for (char &c : text)
        if (c >= 'a' && c <= 'z')
            c = static_cast<char>(c - 'a' + 'A');
    return text;
}

std::string
printable(std::string_view text)
{
    std::string result;
    result.reserve(text.size());
    for (;;)
    {
        const std::size_t plain = plain_length(text);
        result += text.substr(0, plain);
        text.remove_prefix(plain);
        if (text.empty())
            return result;
        const Character character = first_character(text);
        if (!character.valid || is_hidden(character.code))
            result += escaped(character);
        else
            result += character.bytes;
        text.remove_prefix(character.bytes.size());
    }
}

bool
is_utf8(std::string_view text)
{
    while (!text.empty())
    {
        const Character character = first_character(text);
        if (!character.valid)
            return false;
        text.remove_prefix(character.bytes.size());
    }
    return true;
}

std::size_t
columns_of(std::string_view text)
{
    std::size_t count = 0;
    for (const char c : text)
        count += (static_cast<unsigned char>(c) & 0xc0) != 0x80 ? 1 : 0;
    return count;
}

std::string
shortened(const std::string &text, std::size_t columns)
{
    if (columns_of(text) <= columns)
        return text;
    std::size_t count = 0;
    std::size_t bytes = 0;
    while (bytes < text.size())
    {
        const bool begins = (static_cast<unsigned char>(text[bytes]) & 0xc0) != 0x80;
        if (begins && ++count == columns)
            break;
        bytes++;
    }
    return text.substr(0, bytes) + "…";
}

std::string
to_base64(std::string_view bytes)
{
    constexpr const char *kDigits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string result;
    for (std::size_t i = 0; i < bytes.size(); i += 3)
    {
        std::uint32_t group = 0;
        for (std::size_t j = 0; j < 3; j++)
            group =
                group << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U);
        for (std::size_t j = 0; j < 4; j++)
            result += i + j <= bytes.size() ? kDigits[group >> (18 - 6 * j) & 63] : '=';
    }
    return result;
}

std::string
from_hex(std::string_view text)
{
    std::string bytes;
    for (std::size_t i = 2; i + 1 < text.size(); i += 2)
    {
        unsigned value = 0;
        (void) std::from_chars(text.data() + i, text.data() + i + 2, value, 16);
        bytes += static_cast<char>(value);
    }
    return bytes;
}

} // namespace outbox::ctl
