// A histogram of fixed size for values whose range is not known beforehand.
#pragma once

#include <cstddef>
#include <cstdint>

namespace outbox
{

// Counts values from 0 to 2^Bits - 1; larger ones count as the largest. Log-linear: each power of
// two is cut into eight equal buckets, and the values below eight have one each. So quantile() is
// at most 6.25 % away from a value that was added (exact below 16), however the values are spread.
// Plain memory: all zero is an empty one, and it is merged by adding.
template <int Bits> struct LogHistogram
{
    static_assert(Bits > 3 && Bits < 64, "at least one power of two is cut");

    static constexpr int kSubBits = 3;
    static constexpr std::uint64_t kSub = 1U << kSubBits;
    static constexpr std::uint64_t kLargest = (std::uint64_t{1} << Bits) - 1;
    static constexpr std::size_t kBuckets = (Bits - kSubBits + 1) * kSub;

    std::uint64_t counts[kBuckets];
    std::uint64_t sum;     // of the values as they were added
    std::uint64_t largest; // likewise

    static std::size_t bucket_of(std::uint64_t value) noexcept
    {
        if (value < kSub)
            return static_cast<std::size_t>(value);
        if (value > kLargest)
            value = kLargest;
        const int shift = 63 - __builtin_clzll(value) - kSubBits;
        return static_cast<std::size_t>((static_cast<std::uint64_t>(shift) << kSubBits) +
                                        (value >> shift));
    }

    // The smallest value of a bucket; for kBuckets the first one beyond all buckets.
    static std::uint64_t lowest_of(std::size_t bucket) noexcept
    {
        if (bucket < kSub)
            return bucket;
        const std::uint64_t shift = (bucket >> kSubBits) - 1;
        return ((bucket & (kSub - 1)) + kSub) << shift;
    }

    void add(std::uint64_t value) noexcept
    {
        counts[bucket_of(value)]++;
        sum += value;
        if (value > largest)
            largest = value;
    }

    void merge(const LogHistogram &other) noexcept
    {
        for (std::size_t i = 0; i < kBuckets; i++)
            counts[i] += other.counts[i];
        sum += other.sum;
        if (other.largest > largest)
            largest = other.largest;
    }

    std::uint64_t total() const noexcept { return below_bucket(kBuckets); }

    // How many values were below this one, which must be 0 or a power of two up to 2^Bits.
    std::uint64_t below(std::uint64_t power) const noexcept
    {
        return below_bucket(power > kLargest ? kBuckets : bucket_of(power));
    }

    // The value that a share of all values, 0 to 1, does not exceed: the middle of its bucket, and
    // no more than the largest. 0 when nothing was added.
    std::uint64_t quantile(double share) const noexcept
    {
        const std::uint64_t all = total();
        const double wanted = share * static_cast<double>(all);
        std::uint64_t seen = 0;
        for (std::size_t i = 0; i < kBuckets; i++)
        {
            seen += counts[i];
            if (counts[i] == 0 || static_cast<double>(seen) < wanted)
                continue;
            if (i == kBuckets - 1) // has no end
                return largest;
            const std::uint64_t middle = (lowest_of(i) + lowest_of(i + 1) - 1) / 2;
            return middle < largest ? middle : largest;
        }
        return largest;
    }

private:
    std::uint64_t below_bucket(std::size_t end) const noexcept
    {
        std::uint64_t values = 0;
        for (std::size_t i = 0; i < end; i++)
            values += counts[i];
        return values;
    }
};

} // namespace outbox
