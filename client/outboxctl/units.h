// Numbers, times and texts as a person reads them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace outbox::ctl
{

// "1,234,567"
std::string with_commas(long long number);

// "1 event", "1,234 events"
std::string counted(long long number, const std::string &noun);

// "512 B", "1.5 kB", "32 MB": powers of 1024, as PostgreSQL has them
std::string human_bytes(long long bytes);

// "12 ms", "3.4 s", "5 min 12 s", "2 h 5 min", "3 d 4 h"; negative times count as none
std::string human_duration(double seconds);

// "250 /s", "12,000 /s", "0.5 /s"
std::string human_rate(double per_second);

// Seconds in "90", "90s", "15m", "2h", "7d", or nothing when it is none of these.
std::optional<double> parse_duration(std::string_view text);

// "FAILED" as people read it, "failed", and as the tables have it. Letters of ASCII only.
std::string lower(std::string text);
std::string upper(std::string text);

// Text that a terminal shows and does not obey: control characters and bytes that are no UTF-8
// become \n, \t, \xNN; marks of direction and what has no width \uNNNN.
std::string printable(std::string_view text);

// Whether all of it is well-formed UTF-8.
bool is_utf8(std::string_view text);

// Columns that a text takes, one for each character.
std::size_t columns_of(std::string_view text);

// The text, or its beginning and "…", in at most `columns` (at least 1).
std::string shortened(const std::string &text, std::size_t columns);

// Standard base64 with padding.
std::string to_base64(std::string_view bytes);

// The bytes of "\x0aff", PostgreSQL's notation of a bytea.
std::string from_hex(std::string_view text);

} // namespace outbox::ctl
