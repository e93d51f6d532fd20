// The clock for pauses and intervals: it is never set.
#pragma once

#include <chrono>
#include <cstdint>

namespace outbox
{

// Microseconds since some moment in the past. Not to be compared with a time of the day, nor
// stored.
inline std::int64_t
steady_now() noexcept
{
    return std::chrono::duration_cast<std::chrono::microseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

} // namespace outbox
