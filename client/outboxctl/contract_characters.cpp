#include "contract_characters.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace outbox::ctl
{

namespace
{

using Characters = Pattern::Characters;

constexpr wchar_t kLast = 0x10ffff;

const Characters kDigits = {{L'0', L'9'}};
const Characters kWord = {{L'0', L'9'}, {L'A', L'Z'}, {L'_', L'_'}, {L'a', L'z'}};
const Characters kSpaces = {{L'\t', L'\r'},   {L' ', L' '},     {0xa0, 0xa0},     {0x1680, 0x1680},
                            {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f},
                            {0x3000, 0x3000}, {0xfeff, 0xfeff}};

bool
is_letter(wchar_t c)
{
    return (c >= L'a' && c <= L'z') || (c >= L'A' && c <= L'Z');
}

bool
is_digit(wchar_t c)
{
    return c >= L'0' && c <= L'9';
}

// In order, and without ranges that touch.
Characters
in_order(Characters characters)
{
    std::sort(characters.begin(), characters.end());
    Characters result;
    for (const auto &[first, last] : characters)
        if (!result.empty() && first <= result.back().second + 1)
            result.back().second = std::max(result.back().second, last);
        else
            result.emplace_back(first, last);
    return result;
}

ScannedCharacter
set_of(const Characters &characters, bool others)
{
    return {true, 0, others ? complement(characters) : characters};
}

} // namespace

void
refuse_pattern(const std::string &why, std::size_t place)
{
    throw std::invalid_argument(fmt::format("{}, at character {}", why, place + 1));
}

Characters
complement(const Characters &characters)
{
    Characters result;
    wchar_t next = 0;
    for (const auto &[first, last] : characters)
    {
        if (first > next)
            result.emplace_back(next, first - 1);
        next = last + 1;
    }
    if (next <= kLast)
        result.emplace_back(next, kLast);
    return result;
}

// -1 when there are not so many digits.
int
CharacterScan::hexadecimal(std::size_t place, std::size_t digits) const
{
    int number = 0;
    for (std::size_t i = place; i < place + digits; i++)
    {
        const wchar_t c = at(i);
        if (is_digit(c))
            number = number * 16 + (c - L'0');
        else if ((c >= L'a' && c <= L'f') || (c >= L'A' && c <= L'F'))
            number = number * 16 + ((c | 32) - L'a' + 10);
        else
            return -1;
    }
    return number;
}

// Two surrogates are one character, as they are in a text.
wchar_t
CharacterScan::code_point(std::size_t &place, std::size_t digits) const
{
    const int number = hexadecimal(place, digits);
    if (number < 0)
        refuse_pattern(
            fmt::format("\\{} has {} hexadecimal digits", digits == 2 ? 'x' : 'u', digits),
            place - 2);
    place += digits;
    if (number >= 0xd800 && number < 0xdc00 && at(place) == L'\\' && at(place + 1) == L'u')
    {
        const int low = hexadecimal(place + 2, 4);
        if (low >= 0xdc00 && low < 0xe000)
        {
            place += 6;
            return static_cast<wchar_t>(0x10000 + ((number - 0xd800) << 10) + (low - 0xdc00));
        }
    }
    return static_cast<wchar_t>(number);
}

ScannedCharacter
CharacterScan::escape(std::size_t &place) const
{
    const std::size_t begin = place - 1;
    if (place >= text_.size())
        refuse_pattern("there is nothing behind \\", begin);
    switch (const wchar_t c = text_[place++])
    {
    case L'd':
    case L'D':
        return set_of(kDigits, c == L'D');
    case L'w':
    case L'W':
        return set_of(kWord, c == L'W');
    case L's':
    case L'S':
        return set_of(kSpaces, c == L'S');
    case L't':
        return {false, L'\t'};
    case L'n':
        return {false, L'\n'};
    case L'v':
        return {false, L'\v'};
    case L'f':
        return {false, L'\f'};
    case L'r':
        return {false, L'\r'};
    case L'x':
        return {false, code_point(place, 2)};
    case L'u':
        return {false, code_point(place, 4)};
    case L'c':
        if (!is_letter(at(place)))
            refuse_pattern("behind \\c there is a letter from A to Z", begin);
        return {false, static_cast<wchar_t>(text_[place++] & 31)};
    case L'0':
        if (is_digit(at(place)))
            refuse_pattern("there is no octal number; write \\x and two digits", begin);
        return {false, L'\0'};
    default:
        if (is_letter(c) || is_digit(c))
            refuse_pattern(fmt::format("\\{} is not known", static_cast<char>(c)), begin);
        return {false, c};
    }
}

ScannedCharacter
CharacterScan::in_brackets(std::size_t &place) const
{
    const wchar_t c = text_[place++];
    if (c != L'\\')
        return {false, c};
    if (at(place) == L'b')
    {
        place++;
        return {false, L'\b'};
    }
    return escape(place);
}

Characters
CharacterScan::brackets(std::size_t &place) const
{
    const std::size_t begin = place - 1;
    const bool others = at(place) == L'^';
    place += others ? 1 : 0;
    Characters found;
    while (place < text_.size() && text_[place] != L']')
    {
        const std::size_t from = place;
        const ScannedCharacter first = in_brackets(place);
        ScannedCharacter last = first;
        if (at(place) == L'-' && place + 1 < text_.size() && text_[place + 1] != L']')
        {
            last = in_brackets(++place);
            if (first.is_set || last.is_set)
                refuse_pattern("a range has a character on both sides; as a character, - is "
                               "written \\-",
                               from);
            if (first.character > last.character)
                refuse_pattern("the range ends before it begins", from);
        }
        if (first.is_set)
            found.insert(found.end(), first.set.begin(), first.set.end());
        else
            found.emplace_back(first.character, last.character);
    }
    if (place++ >= text_.size())
        refuse_pattern("no ] belongs to this [", begin);
    found = in_order(std::move(found));
    return others ? complement(found) : found;
}

} // namespace outbox::ctl
