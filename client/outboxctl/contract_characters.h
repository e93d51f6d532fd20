// The characters of a pattern: escapes, and sets in brackets.
#pragma once

#include "contract_pattern.h"

namespace outbox::ctl
{

// Throws std::invalid_argument with the place, counted from 1.
[[noreturn]] void refuse_pattern(const std::string &why, std::size_t place);

// All others.
Pattern::Characters complement(const Pattern::Characters &characters);

struct ScannedCharacter
{
    bool is_set = false;
    wchar_t character = 0;
    Pattern::Characters set = {};
};

class CharacterScan
{
public:
    explicit CharacterScan(const std::wstring &text) : text_(text) {}

    // Behind the backslash. Both move `place` behind what they have read.
    ScannedCharacter escape(std::size_t &place) const;
    // Behind the opening bracket.
    Pattern::Characters brackets(std::size_t &place) const;

private:
    wchar_t at(std::size_t place) const { return place < text_.size() ? text_[place] : L'\0'; }
    int hexadecimal(std::size_t place, std::size_t digits) const;
    wchar_t code_point(std::size_t &place, std::size_t digits) const;
    ScannedCharacter in_brackets(std::size_t &place) const;

    const std::wstring &text_;
};

} // namespace outbox::ctl
