// Formats of JSON Schema that are checked, and characters for patterns.
#pragma once

#include <string>

namespace outbox::ctl
{

// Whether the text is of this format. One that is not checked has no wrong texts.
bool has_format(const std::string &text, const std::string &format);

// UTF-8 as one wchar_t for each character.
std::wstring characters_of(const std::string &text);

} // namespace outbox::ctl
