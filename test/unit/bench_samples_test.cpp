#include "bench/support/samples.h"

#include <gtest/gtest.h>

namespace outbox::bench
{

namespace
{

TEST(BenchSamples, PercentilesAreMeasuredValues)
{
    const std::vector<double> samples = {40, 10, 30, 20};
    EXPECT_EQ(percentile(samples, 0), 10);
    EXPECT_EQ(percentile(samples, 0.25), 10);
    EXPECT_EQ(percentile(samples, 0.26), 20);
    EXPECT_EQ(percentile(samples, 0.5), 20);
    EXPECT_EQ(percentile(samples, 0.99), 40);
    EXPECT_EQ(percentile(samples, 1), 40);
}

TEST(BenchSamples, OneSampleIsEveryPercentile)
{
    EXPECT_EQ(percentile({7}, 0), 7);
    EXPECT_EQ(percentile({7}, 0.5), 7);
    EXPECT_EQ(percentile({7}, 1), 7);
}

TEST(BenchSamples, SpreadOfOddAndEvenRounds)
{
    const Spread odd = spread_of({3, 1, 8});
    EXPECT_EQ(odd.median, 3);
    EXPECT_EQ(odd.low, 1);
    EXPECT_EQ(odd.high, 8);
    EXPECT_EQ(spread_of({3, 1, 8, 5}).median, 4);
}

TEST(BenchSamples, NoSamplesAreAnError)
{
    EXPECT_THROW(percentile({}, 0.5), std::invalid_argument);
    EXPECT_THROW(spread_of({}), std::invalid_argument);
}

} // namespace

} // namespace outbox::bench
