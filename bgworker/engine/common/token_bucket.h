// How fast something may go.
#pragma once

#include <algorithm>
#include <cstdint>

namespace outbox
{

// Lets `rate` things a second through. What was not used is kept for a tenth of a second, so that a
// caller who comes late or rarely still reaches the rate; never does more than that go at once, nor
// more than `most`.
// Times are microseconds of any clock; one that goes back costs no more than the time it repeats.
class TokenBucket
{
public:
    static constexpr std::int64_t kSecondUs = 1000000;
    static constexpr std::int64_t kMostAtOnce = 256;

    // A rate below 1 counts as 1. Begins with what may go at once.
    void configure(std::int64_t rate, std::int64_t now_us, std::int64_t most = kMostAtOnce) noexcept
    {
        rate_ = std::max<std::int64_t>(rate, 1);
        at_once_ = std::clamp<std::int64_t>(rate_ / 10, 1, most);
        credit_ = at_once_ * kSecondUs;
        filled_us_ = now_us;
    }

    // How many may go now.
    std::int64_t available(std::int64_t now_us) noexcept
    {
        fill(now_us);
        return credit_ / kSecondUs;
    }

    // Who takes more than are available has what comes next wait longer.
    void take(std::int64_t count) noexcept { credit_ -= count * kSecondUs; }

    // How long until it is worth to look again: one may go then, or a quarter of what may go at
    // once, so that nobody is woken for each.
    std::int64_t us_until_more(std::int64_t now_us) noexcept
    {
        fill(now_us);
        const std::int64_t wanted = std::max<std::int64_t>(at_once_ / 4, 1) * kSecondUs;
        return credit_ >= wanted ? 0 : (wanted - credit_ + rate_ - 1) / rate_;
    }

private:
    // Credit is counted in millionths, of which each microsecond brings `rate`: nothing is rounded.
    void fill(std::int64_t now_us) noexcept
    {
        const std::int64_t passed = std::clamp<std::int64_t>(now_us - filled_us_, 0, kSecondUs);
        filled_us_ = now_us;
        // A part of one more is kept, or who comes late at a low rate would lose it each time.
        credit_ = std::min(credit_ + passed * rate_, (at_once_ + 1) * kSecondUs - 1);
    }

    std::int64_t rate_ = 1;
    std::int64_t at_once_ = 1;
    std::int64_t credit_ = 0;
    std::int64_t filled_us_ = 0;
};

} // namespace outbox
