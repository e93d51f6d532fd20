// How long to wait before the next attempt.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "outbox/export.h"

namespace outbox::v0::detail
{

using Milliseconds = std::chrono::milliseconds;

// Exponential, with "equal jitter": the pause after the n-th failure (from 1) is between half of
// and the whole of initial * 2^(n-1), at most `longest`. `random` may be any number.
inline Milliseconds
backoff(Milliseconds initial, Milliseconds longest, int failures, std::uint64_t random)
{
    const std::int64_t limit = std::max<std::int64_t>(longest.count(), 1);
    std::int64_t pause = std::clamp<std::int64_t>(initial.count(), 1, limit);
    for (int i = 1; i < failures && pause < limit; ++i)
        pause = pause > limit / 2 ? limit : pause * 2;
    const std::int64_t half = pause / 2;
    return Milliseconds(
        half + static_cast<std::int64_t>(random % static_cast<std::uint64_t>(pause - half + 1)));
}

} // namespace outbox::v0::detail
