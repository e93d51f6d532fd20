// What an answer, or the lack of one, says.
#pragma once

#include "bgworker/engine/failure.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace outbox::http
{

enum class Outcome : unsigned char
{
    delivered,
    refused,     // this event is the reason
    gone,        // the endpoint asks never to be called again
    busy,        // the endpoint asks all to wait
    trouble,     // the endpoint's, or this event's if others are served
    unreachable, // there is no connection: no event is the reason
};

// By the status code alone.
Outcome outcome_of(int status, bool has_retry_after) noexcept;

// The status code in the first line of an answer, "HTTP/1.1 200 OK"; 0: it is no such line. libcurl
// is not as strict: it takes "HTTP/x.1 429" for 200.
int status_of(std::string_view line) noexcept;

// The standard's words for a status code; "" for one that has none.
const char *reason_of(int status) noexcept;

// A text that anybody may send, fit for a log and a terminal: valid UTF-8, at most `most` bytes, in
// one line. Control characters, and those that change the direction of writing, become spaces; runs
// of spaces one; what is no UTF-8 a question mark.
std::string clean_text(std::string_view text, std::size_t most);

// Seconds of a Retry-After in digits; -1: it is something else.
std::int64_t retry_after_seconds(std::string_view value) noexcept;

} // namespace outbox::http
