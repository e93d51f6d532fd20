// Waits of which one has no limit.
#pragma once

namespace outbox
{

// The shorter of two waits; a negative one has no limit.
inline long
sooner(long a, long b) noexcept
{
    if (a < 0)
        return b;
    return b < 0 || a < b ? a : b;
}

} // namespace outbox
