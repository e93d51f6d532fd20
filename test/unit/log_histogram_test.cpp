#include "extension/core/log_histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace outbox::test
{

namespace
{

using Latencies = LogHistogram<36>;

TEST(LogHistogram, ItsBucketsFollowEachOtherWithoutGaps)
{
    EXPECT_EQ(Latencies::kBuckets, 272U);
    EXPECT_EQ(Latencies::lowest_of(Latencies::kBuckets), Latencies::kLargest + 1);
    for (std::size_t i = 0; i < Latencies::kBuckets; ++i)
    {
        const std::uint64_t first = Latencies::lowest_of(i);
        const std::uint64_t last = Latencies::lowest_of(i + 1) - 1;
        ASSERT_LE(first, last);
        EXPECT_EQ(Latencies::bucket_of(first), i);
        EXPECT_EQ(Latencies::bucket_of(last), i);
        EXPECT_LE(static_cast<double>(last - first), 0.125 * static_cast<double>(first));
    }
}

TEST(LogHistogram, LargerValuesCountAsTheLargest)
{
    Latencies histogram = {};
    histogram.add(Latencies::kLargest + 1);
    histogram.add(UINT64_MAX / 2);
    EXPECT_EQ(histogram.counts[Latencies::kBuckets - 1], 2U);
    EXPECT_EQ(histogram.quantile(0.5), UINT64_MAX / 2) << "the last bucket has no end";
    EXPECT_EQ(histogram.largest, UINT64_MAX / 2);
}

TEST(LogHistogram, QuantilesAreWithinTheStatedErrorOfTheValuesThatWereAdded)
{
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    for (int round = 0; round < 50; ++round)
    {
        std::lognormal_distribution<double> spread(3.0 + round * 0.2, 0.3 + 0.05 * round);
        Latencies histogram = {};
        std::vector<std::uint64_t> values;
        for (int i = 0; i < 3000; ++i)
        {
            const double drawn = std::min(spread(random), 6e10);
            values.push_back(static_cast<std::uint64_t>(drawn));
            histogram.add(values.back());
        }
        std::sort(values.begin(), values.end());
        EXPECT_EQ(histogram.largest, values.back());
        EXPECT_EQ(histogram.total(), values.size());
        for (const double share : {0.0001, 0.5, 0.95, 0.99, 1.0})
        {
            const double rank = std::ceil(share * static_cast<double>(values.size()));
            const auto exact = static_cast<double>(values[static_cast<std::size_t>(rank) - 1]);
            const auto told = static_cast<double>(histogram.quantile(share));
            EXPECT_LE(std::abs(told - exact), 0.0625 * exact + 0.5) << share;
        }
    }
}

TEST(LogHistogram, SmallValuesAreExact)
{
    for (std::uint64_t value = 0; value < 16; ++value)
    {
        LogHistogram<20> histogram = {};
        histogram.add(value);
        histogram.add(1000);
        EXPECT_EQ(histogram.quantile(0.5), value);
    }
}

TEST(LogHistogram, MergingIsAdding)
{
    std::mt19937_64 random(7);
    Latencies one = {};
    Latencies other = {};
    Latencies both = {};
    for (int i = 0; i < 1000; ++i)
    {
        const std::uint64_t value = random() >> (random() % 60);
        (i % 3 == 0 ? one : other).add(value);
        both.add(value);
    }
    one.merge(other);
    EXPECT_EQ(one.sum, both.sum);
    EXPECT_EQ(one.largest, both.largest);
    EXPECT_TRUE(std::equal(std::begin(one.counts), std::end(one.counts), std::begin(both.counts)));
}

TEST(LogHistogram, CountsWhatIsBelowAPowerOfTwo)
{
    Latencies histogram = {};
    for (std::uint64_t value = 0; value < 3000; ++value)
        histogram.add(value);
    EXPECT_EQ(histogram.below(1), 1U);
    EXPECT_EQ(histogram.below(1024), 1024U);
    EXPECT_EQ(histogram.below(4096), 3000U);
    EXPECT_EQ(histogram.below(Latencies::kLargest + 1), 3000U);
}

TEST(LogHistogram, AnEmptyOneHasNoQuantile)
{
    const Latencies histogram = {};
    EXPECT_EQ(histogram.quantile(0.99), 0U);
    EXPECT_EQ(histogram.total(), 0U);
}

} // namespace

} // namespace outbox::test
