// Numbers that a seed decides.
#pragma once

#include <cstddef>
#include <cstdint>

namespace outbox::sim
{

// SplitMix64 (Steele, Lea, Flood, 2014). The same seed gives the same numbers on every machine,
// which the standard library's distributions do not promise.
class Random
{
public:
    explicit Random(std::uint64_t seed) noexcept : state_(seed) {}

    std::uint64_t next() noexcept
    {
        std::uint64_t mixed = (state_ += 0x9e3779b97f4a7c15U);
        mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9U;
        mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebU;
        return mixed ^ (mixed >> 31);
    }

    // 0 to bound - 1.
    std::int64_t below(std::int64_t bound) noexcept
    {
        return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(bound));
    }
    // Both ends included.
    std::int64_t between(std::int64_t low, std::int64_t high) noexcept
    {
        return low + below(high - low + 1);
    }
    bool percent(std::int64_t chance) noexcept { return below(100) < chance; }

private:
    std::uint64_t state_;
};

} // namespace outbox::sim
