#include "characters.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace outbox::ctl
{

namespace
{

struct Range
{
    std::uint32_t first;
    std::uint32_t last;
};

// In order. Default_Ignorable_Code_Point of Unicode 15.0 (DerivedCoreProperties.txt) whole, which
// has the joiners and selectors that emoji need: they hide differences between names. Besides,
// controls, separators of lines, marks and embeddings of direction (Bidi_Control of PropList.txt),
// other format characters without a form, and what is no character.
constexpr Range kHidden[] = {
    {0x00, 0x1f},       // C0
    {0x7f, 0x9f},       // DEL, C1
    {0xad, 0xad},       // soft hyphen
    {0x34f, 0x34f},     // combining grapheme joiner
    {0x61c, 0x61c},     // Arabic letter mark
    {0x115f, 0x1160},   // Hangul fillers
    {0x17b4, 0x17b5},   // Khmer vowels without a form
    {0x180b, 0x180f},   // Mongolian selectors and separator
    {0x200b, 0x200f},   // zero width, marks of direction
    {0x2028, 0x202e},   // separators of lines, embedded directions
    {0x2060, 0x206f},   // word joiner, isolated directions
    {0x3164, 0x3164},   // Hangul filler
    {0xfe00, 0xfe0f},   // selectors of variants
    {0xfeff, 0xfeff},   // byte order mark
    {0xffa0, 0xffa0},   // Hangul filler
    {0xfff0, 0xfffb},   // annotations, and not assigned
    {0xfffe, 0xffff},   // no characters
    {0x1bca0, 0x1bca3}, // of shorthand
    {0x1d173, 0x1d17a}, // of music
    {0xe0000, 0xe0fff}, // tags, more selectors of variants, and not assigned
};

std::size_t
length_of(std::string_view text)
{
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char first = byte(0);
    const std::size_t length = first < 0x80                    ? 1
                               : first >= 0xc2 && first < 0xe0 ? 2
                               : first >= 0xe0 && first < 0xf0 ? 3
                               : first >= 0xf0 && first < 0xf5 ? 4
                                                               : 0;
    if (length == 0 || length > text.size())
        return 0;
    for (std::size_t i = 1; i < length; i++)
        if ((byte(i) & 0xc0) != 0x80)
            return 0;
    // Longer than needed, surrogates, beyond U+10FFFF.
    if ((first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) > 0x9f) ||
        (first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) > 0x8f))
        return 0;
    return length;
}

} // namespace

Character
first_character(std::string_view text)
{
    const std::size_t length = length_of(text);
    Character character{text.substr(0, length == 0 ? 1 : length), length != 0,
                        static_cast<unsigned char>(text[0])};
    if (length > 1)
        character.code &= 0x7fU >> length;
    for (std::size_t i = 1; i < length; i++)
        character.code = character.code << 6 | (static_cast<unsigned char>(text[i]) & 0x3fU);
    return character;
}

std::size_t
plain_length(std::string_view text)
{
    std::size_t length = 0;
    while (length < text.size() && text[length] >= ' ' && text[length] <= '~' &&
           text[length] != '"' && text[length] != '\\')
        length++;
    return length;
}

bool
is_hidden(std::uint32_t code)
{
    const Range *found = std::lower_bound(std::begin(kHidden), std::end(kHidden), code,
                                          [](const Range &range, std::uint32_t value)
                                          { return range.last < value; });
    return found != std::end(kHidden) && code >= found->first;
}

std::string
json_escape(std::uint32_t code)
{
    if (code < 0x10000)
        return fmt::format("\\u{:04x}", code);
    const std::uint32_t rest = code - 0x10000;
    return fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + (rest >> 10), 0xdc00 + (rest & 0x3ff));
}

} // namespace outbox::ctl
