#include "bgworker/engine/clock.h"

#include <gtest/gtest.h>

#include <type_traits>

using namespace outbox;

// Nothing can be paced by the time of day: the compiler refuses it.
static_assert(!std::is_convertible_v<Time, Steady> && !std::is_convertible_v<Steady, Time>);
static_assert(!std::is_invocable_v<decltype(&has_passed), Time, Time, std::int64_t>);

TEST(Clock, AWaitIsRoundedUpAndNeverNegative)
{
    EXPECT_EQ(ms_between(Steady{5000}, Steady{5001}), 1);
    EXPECT_EQ(ms_between(Steady{5000}, Steady{6000}), 1);
    EXPECT_EQ(ms_between(Steady{5000}, Steady{6001}), 2);
    EXPECT_EQ(ms_between(Steady{6000}, Steady{5000}), 0);
    EXPECT_EQ(ms_between(Time{-3000}, Time{3000}), 6) << "a time of day may be before the epoch";
    EXPECT_EQ(ms_between(INT64_MIN, INT64_MAX), INT32_MAX);
}

TEST(Clock, APauseHasPassedWhenItIsOver)
{
    const Steady since = {1000};
    EXPECT_FALSE(has_passed(since, Steady{20999}, 20));
    EXPECT_TRUE(has_passed(since, Steady{21000}, 20));
    EXPECT_TRUE(has_passed(since, plus_ms(since, 20), 20));
    EXPECT_TRUE(Steady{}.is_never());
    EXPECT_FALSE(since.is_never());
}
