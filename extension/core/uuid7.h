// UUID version 7 (RFC 9562): ordered by time, and strictly increasing within one generator.
#pragma once

#include <cstdint>

namespace outbox
{

// 48 bits of milliseconds, 12 bits of sub-millisecond fraction (RFC 9562 section 6.2, method 3), 62
// random bits. Constant-initialised and trivially destructible; the clock and the randomness come
// from the caller.
class Uuid7Generator
{
public:
    // Writes the next UUID to `out`; it is greater than all this generator made before, even when
    // the clock stands still or steps back. Returns false, and writes nothing, only for a time
    // outside 1970 to 2262.
    bool next(std::int64_t unix_nanoseconds, const std::uint8_t random[8],
              std::uint8_t out[16]) noexcept;

private:
    std::int64_t last_nanoseconds_ = -1;
};

} // namespace outbox
