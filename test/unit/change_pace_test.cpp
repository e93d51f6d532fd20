#include "bgworker/engine/common/change_pace.h"

#include <gtest/gtest.h>

namespace outbox::test
{

namespace
{

constexpr std::int64_t kMs = 1000;

// Looks from `from` on for `took` ms, and returns when the look has ended.
std::int64_t
look(ChangePace &pace, std::int64_t from, std::int64_t took)
{
    EXPECT_TRUE(pace.is_due(from));
    pace.begin(from);
    pace.end(from + took * kMs);
    return from + took * kMs;
}

} // namespace

TEST(ChangePace, AChangeIsLookedAtAtOnce)
{
    ChangePace pace;
    EXPECT_FALSE(pace.is_due(0));
    EXPECT_EQ(pace.wait_ms(0), -1);
    pace.note();
    EXPECT_EQ(pace.wait_ms(0), 0);
    const std::int64_t ended = look(pace, 0, 1);
    EXPECT_FALSE(pace.is_due(ended + 1000 * kMs)) << "nothing new";
    pace.note();
    EXPECT_EQ(pace.wait_ms(ended), 4);
    EXPECT_TRUE(pace.is_due(ended + 4 * kMs));
}

TEST(ChangePace, LooksThatTakeLongTakeAFifthOfTheTimeHoweverOftenThereIsAChange)
{
    constexpr std::int64_t kTook = 200;
    ChangePace pace;
    std::int64_t now = 0;
    int looks = 0;
    while (now < 60 * 1000 * kMs)
    {
        pace.note();
        if (pace.is_due(now))
        {
            now = look(pace, now, kTook);
            looks++;
        }
        else
            now += kMs;
    }
    EXPECT_EQ(looks, 60);
}

TEST(ChangePace, NoChangeWaitsForMoreThanSomeSeconds)
{
    ChangePace pace;
    pace.note();
    const std::int64_t ended = look(pace, 0, 60000);
    pace.note();
    EXPECT_EQ(pace.wait_ms(ended), 5000);
}

TEST(ChangePace, WhatIsToldOfDuringALookIsKept)
{
    ChangePace pace;
    pace.note();
    pace.begin(0);
    pace.note();
    pace.end(10 * kMs);
    EXPECT_FALSE(pace.is_due(49 * kMs));
    EXPECT_TRUE(pace.is_due(50 * kMs));
}

// COMMIT PREPARED of anybody, a thousand times a second.
TEST(ChangePace, WhatIsOnlyPossibleIsLookedAtSeldom)
{
    ChangePace pace;
    pace.note_possible();
    const std::int64_t ended = look(pace, 0, 1);
    pace.note_possible();
    EXPECT_EQ(pace.wait_ms(ended), 1000);
    EXPECT_FALSE(pace.is_due(ended + 999 * kMs));
    pace.note(); // an operator
    EXPECT_TRUE(pace.is_due(ended + 4 * kMs));
    const std::int64_t again = look(pace, ended + 4 * kMs, 500);
    EXPECT_EQ(pace.wait_ms(again), -1);
    pace.note_possible();
    EXPECT_EQ(pace.wait_ms(again), 8000);
}

} // namespace outbox::test
