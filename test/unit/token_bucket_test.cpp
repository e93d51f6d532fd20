#include "bgworker/engine/common/token_bucket.h"

#include <gtest/gtest.h>

#include <random>

namespace outbox::test
{

namespace
{

constexpr std::int64_t kSecond = TokenBucket::kSecondUs;

TokenBucket
bucket(std::int64_t rate, std::int64_t now = 0)
{
    TokenBucket made;
    made.configure(rate, now);
    return made;
}

// What a caller gets through who comes every `pause` microseconds, up to `end`.
std::int64_t
let_through(TokenBucket &limited, std::int64_t pause, std::int64_t end)
{
    std::int64_t through = 0;
    for (std::int64_t now = 0; now <= end; now += pause)
    {
        const std::int64_t count = limited.available(now);
        limited.take(count);
        through += count;
    }
    return through;
}

TEST(TokenBucket, LetsTheRateThroughHoweverOftenTheCallerComes)
{
    for (const std::int64_t rate : {1, 7, 100, 999, 2500, 10000})
        for (const std::int64_t pause : {13, 1000, 9999, 20000})
        {
            TokenBucket limited = bucket(rate);
            const std::int64_t through = let_through(limited, pause, 20 * kSecond);
            const std::int64_t at_once =
                std::clamp<std::int64_t>(rate / 10, 1, TokenBucket::kMostAtOnce);
            EXPECT_LE(through, 20 * rate + at_once) << rate << " every " << pause;
            EXPECT_GE(through, 20 * rate - at_once) << rate << " every " << pause;
        }
}

TEST(TokenBucket, WhoTookMoreThanWasThereWaitsLonger)
{
    TokenBucket limited;
    limited.configure(kSecond / 4, 0, 10000);
    EXPECT_EQ(limited.available(0), 10000);
    limited.take(20000);
    EXPECT_EQ(limited.available(20000), -5000);
    EXPECT_EQ(limited.available(40000), 0);
    EXPECT_EQ(limited.available(80000), 10000);
    EXPECT_EQ(limited.available(kSecond), 10000);
}

TEST(TokenBucket, NeverLetsMoreThroughInAnyStretchThanTheRateAndWhatMayGoAtOnce)
{
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    constexpr std::int64_t kRate = 200;
    TokenBucket limited = bucket(kRate);
    std::vector<std::pair<std::int64_t, std::int64_t>> history;
    std::int64_t now = 0;
    for (int i = 0; i < 2000; i++)
    {
        now += static_cast<std::int64_t>(random() % 100000);
        const std::int64_t count = std::min<std::int64_t>(limited.available(now),
                                                          static_cast<std::int64_t>(random() % 30));
        limited.take(count);
        history.emplace_back(now, count);
    }
    for (std::size_t from = 0; from < history.size(); from++)
    {
        std::int64_t through = 0;
        for (std::size_t to = from; to < std::min(from + 50, history.size()); to++)
        {
            through += history[to].second;
            const std::int64_t passed = history[to].first - history[from].first;
            ASSERT_LE(through, kRate / 10 + passed * kRate / kSecond + 1);
        }
    }
}

TEST(TokenBucket, WhatWasNotUsedForLongIsLost)
{
    TokenBucket limited = bucket(100);
    limited.take(limited.available(0));
    EXPECT_EQ(limited.available(3600 * kSecond), 10);
    limited.take(10);
    EXPECT_EQ(limited.available(3600 * kSecond), 0);
}

TEST(TokenBucket, TheWaitIsAsLongAsItMustBeAndNoLonger)
{
    for (const std::int64_t rate : {1, 3, 40, 100, 10000})
    {
        TokenBucket limited = bucket(rate);
        limited.take(limited.available(0));
        const std::int64_t wait = limited.us_until_more(0);
        EXPECT_GT(wait, 0);
        EXPECT_GE(limited.available(wait), 1) << rate;
        EXPECT_EQ(limited.us_until_more(wait), 0) << rate;
    }
    TokenBucket once_a_second = bucket(1);
    once_a_second.take(1);
    EXPECT_EQ(once_a_second.us_until_more(0), kSecond);
    EXPECT_EQ(once_a_second.available(kSecond - 1), 0);
}

TEST(TokenBucket, AClockThatGoesBackNeitherStopsNorFloodsAnything)
{
    TokenBucket limited = bucket(100, 1000 * kSecond);
    limited.take(limited.available(1000 * kSecond));
    EXPECT_EQ(limited.available(10 * kSecond), 0);
    EXPECT_EQ(limited.available(10 * kSecond + 50000), 5);
}

TEST(TokenBucket, ARateBelowOneCountsAsOne)
{
    TokenBucket limited = bucket(-5);
    limited.take(limited.available(0));
    EXPECT_EQ(limited.us_until_more(0), kSecond);
}

} // namespace

} // namespace outbox::test
