// How figures are written, in the report and on the page.
#pragma once

#include <string>

#include <fmt/format.h>

#include "samples.h"

namespace outbox::bench
{

// The median, and in parentheses the range.
inline std::string
with_range(const Spread &spread, int digits)
{
    return fmt::format("{:.{}f} ({:.{}f} - {:.{}f})", spread.median, digits, spread.low, digits,
                       spread.high, digits);
}

inline std::string
megabytes(double bytes)
{
    return fmt::format("{:.0f} MB", bytes / 1e6);
}

} // namespace outbox::bench
