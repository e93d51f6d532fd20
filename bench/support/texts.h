// How figures are written, in the report and on the page.
#pragma once

#include <string>

#include <fmt/format.h>

#include "samples.h"

namespace outbox::bench
{

// The median, and in parentheses the range if there is one.
inline std::string
with_range(const Spread &spread, int digits)
{
    if (spread.low == spread.high)
        return fmt::format("{:.{}f}", spread.median, digits);
    return fmt::format("{:.{}f} ({:.{}f} - {:.{}f})", spread.median, digits, spread.low, digits,
                       spread.high, digits);
}

// A dash for what could not be seen.
inline std::string
megabytes(double bytes)
{
    if (bytes == 0)
        return "-";
    return fmt::format("{:.0f} MB", bytes / 1e6);
}

} // namespace outbox::bench
