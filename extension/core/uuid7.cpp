#include "uuid7.h"

#include <cstring>
#include <limits>

namespace outbox
{

namespace
{

constexpr std::int64_t kNanosecondsPerMillisecond = 1000000;
constexpr std::int64_t kFractions = 4096; // what 12 bits can tell apart within a millisecond

// The smallest step of time that always changes the 12-bit fraction.
constexpr std::int64_t kSmallestStep = kNanosecondsPerMillisecond / kFractions + 1;

} // namespace

bool
Uuid7Generator::next(std::int64_t unix_nanoseconds, const std::uint8_t random[8],
                     std::uint8_t out[16]) noexcept
{
    if (unix_nanoseconds < 0)
        return false;
    std::int64_t time = unix_nanoseconds;
    if (last_nanoseconds_ >= 0 && time - last_nanoseconds_ < kSmallestStep)
    {
        if (last_nanoseconds_ > std::numeric_limits<std::int64_t>::max() - kSmallestStep)
            return false;
        time = last_nanoseconds_ + kSmallestStep;
    }
    last_nanoseconds_ = time;

    const auto milliseconds = static_cast<std::uint64_t>(time / kNanosecondsPerMillisecond);
    const auto fraction = static_cast<std::uint64_t>(time % kNanosecondsPerMillisecond *
                                                     kFractions / kNanosecondsPerMillisecond);
    for (int i = 0; i < 6; ++i)
        out[i] = static_cast<std::uint8_t>(milliseconds >> (40 - 8 * i));
    out[6] = static_cast<std::uint8_t>(0x70 | fraction >> 8);
    out[7] = static_cast<std::uint8_t>(fraction & 0xFF);
    std::memcpy(out + 8, random, 8);
    out[8] = static_cast<std::uint8_t>(0x80 | (out[8] & 0x3F));
    return true;
}

} // namespace outbox
