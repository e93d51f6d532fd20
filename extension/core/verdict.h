// What a rule answers about a text that a user wrote: fine, or a reason and a hint to print.
#pragma once

#include <cstddef>
#include <string_view>

namespace outbox
{

// A plain struct with its texts inside, so it may stay on a frame that PostgreSQL leaves by
// longjmp. `reason` completes a sentence about the checked text; `hint` is a sentence of its own.
struct Verdict
{
    bool ok = true;
    char reason[256] = "";
    char hint[256] = "";
};

// Returns a refusal whose texts are cut to fit. `reason` is a printf format, `hint` is taken as it
// is.
Verdict refuse(const char *hint, const char *reason, ...) noexcept
    __attribute__((format(printf, 2, 3)));

// Ends a text in UTF-8 before the character that was cut when it was made to fit, if one was.
void drop_cut_character(char *text) noexcept;

// Returns at most `max_bytes` of `text`, not ending inside a UTF-8 character; for quoting user text
// in reasons.
std::string_view clip(std::string_view text, std::size_t max_bytes) noexcept;

} // namespace outbox

#ifdef POSTGRES_H
#error "extension/core must be included before PostgreSQL headers and never include them"
#endif
