// Texts of others, character by character: what is UTF-8, and what a terminal or a reader could be
// misled by.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace outbox::ctl
{

struct Character
{
    std::string_view bytes; // never empty
    bool valid = false;     // well-formed UTF-8; otherwise it is one byte
    std::uint32_t code = 0; // the code point, or the byte
};

// The character that a text, which is not empty, begins with.
Character first_character(std::string_view text);

// How many bytes the text begins with that everybody sees as they are: printable ASCII without
// quotes and backslashes. Most of all text is that.
std::size_t plain_length(std::string_view text);

// Controls (C0, DEL, C1), marks of direction, characters without a width, and what is no character:
// a terminal obeys them, or a person does not see them.
bool is_hidden(std::uint32_t code);

// "\u202e" as JSON has it, beyond U+FFFF as a surrogate pair.
std::string json_escape(std::uint32_t code);

} // namespace outbox::ctl
