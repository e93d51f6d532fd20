#include "verdict.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace outbox
{

Verdict
refuse(const char *hint, const char *reason, ...) noexcept
{
    Verdict verdict;
    verdict.ok = false;
    va_list arguments;
    va_start(arguments, reason);
    const int size = std::vsnprintf(verdict.reason, sizeof verdict.reason, reason, arguments);
    va_end(arguments);
    if (size >= static_cast<int>(sizeof verdict.reason))
        drop_cut_character(verdict.reason);
    (void) std::snprintf(verdict.hint, sizeof verdict.hint, "%s", hint);
    return verdict;
}

void
drop_cut_character(char *text) noexcept
{
    const std::size_t size = std::strlen(text);
    std::size_t begin = size;
    while (begin > 0 && size - begin < 3 &&
           (static_cast<unsigned char>(text[begin - 1]) & 0xC0) == 0x80)
        --begin;
    if (begin == 0)
        return;
    const auto first = static_cast<unsigned char>(text[--begin]);
    const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC0 ? 2 : 1;
    if (size - begin < length)
        text[begin] = '\0';
}

std::string_view
clip(std::string_view text, std::size_t max_bytes) noexcept
{
    if (text.size() <= max_bytes)
        return text;
    std::size_t end = max_bytes;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80)
        --end;
    return text.substr(0, end);
}

} // namespace outbox
