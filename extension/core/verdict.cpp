#include "verdict.h"

#include <cstdarg>
#include <cstdio>

namespace outbox
{

Verdict
refuse(const char *hint, const char *reason, ...) noexcept
{
    Verdict verdict;
    verdict.ok = false;
    va_list arguments;
    va_start(arguments, reason);
    (void) std::vsnprintf(verdict.reason, sizeof verdict.reason, reason, arguments);
    va_end(arguments);
    (void) std::snprintf(verdict.hint, sizeof verdict.hint, "%s", hint);
    return verdict;
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
