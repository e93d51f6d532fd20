#include "bgworker/engine/common/backoff.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace outbox::test
{

namespace
{

constexpr std::uint64_t kLargest = std::numeric_limits<std::uint64_t>::max();

Backoff
backoff(std::int64_t initial_ms, std::int64_t longest_ms)
{
    Backoff made;
    made.configure(initial_ms, longest_ms);
    return made;
}

TEST(Backoff, DoublesUpToTheLongestWait)
{
    Backoff waits = backoff(500, 60000);
    for (const std::int64_t whole : {500, 1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000})
    {
        Backoff copy = waits;
        EXPECT_EQ(copy.fail(0), whole / 2);
        EXPECT_EQ(waits.fail(static_cast<std::uint64_t>(whole / 2)),
                  whole); // the top of the jitter
    }
}

TEST(Backoff, StartsAgainAfterASuccess)
{
    Backoff waits = backoff(100, 1000);
    for (int i = 0; i < 10; ++i)
        waits.fail(kLargest);
    EXPECT_EQ(waits.failures(), 10U);
    waits.succeed();
    EXPECT_EQ(waits.failures(), 0U);
    EXPECT_LE(waits.fail(kLargest), 100);
}

TEST(Backoff, StaysWithinItsBoundsForAnyNumbers)
{
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    for (int round = 0; round < 200; ++round)
    {
        const std::int64_t initial = 1 + static_cast<std::int64_t>(random() % 10000);
        const std::int64_t longest = initial + static_cast<std::int64_t>(random() % 10000000);
        Backoff waits = backoff(initial, longest);
        std::int64_t whole = initial;
        for (int failure = 0; failure < 100; ++failure)
        {
            const std::int64_t wait = waits.fail(random());
            ASSERT_GE(wait, whole / 2);
            ASSERT_LE(wait, whole);
            whole = std::min(whole * 2, longest);
        }
    }
}

TEST(Backoff, TakesTheInitialWaitAsTheLongestWhenThatIsShorter)
{
    Backoff waits = backoff(1000, 10);
    for (int i = 0; i < 5; ++i)
    {
        const std::int64_t wait = waits.fail(kLargest);
        EXPECT_GE(wait, 500);
        EXPECT_LE(wait, 1000);
    }
}

TEST(Backoff, SurvivesExtremeSettings)
{
    Backoff none = backoff(0, 0);
    EXPECT_LE(none.fail(kLargest), 1);
    Backoff huge =
        backoff(std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::max());
    for (int i = 0; i < 100; ++i)
        EXPECT_GT(huge.fail(kLargest), 0);
}

} // namespace

} // namespace outbox::test
