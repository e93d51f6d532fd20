// The grammar of JSON. A server that is none may send anything as JSON.
#pragma once

#include <string_view>

namespace outbox
{

// Whether the text is one JSON document: numbers of any size, nesting of any depth, and any bytes
// beyond ASCII in strings, as databases of other encodings have them.
bool is_json(std::string_view text);

// Whether it is a number, and nothing around it.
bool is_json_number(std::string_view text);

} // namespace outbox
