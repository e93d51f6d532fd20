#include <atomic>
#include <thread>

#include <gtest/gtest.h>
#include <poll.h>

#include "client/src/stop_budget.h"

using outbox::v0::detail::StopBudget;
using outbox::v0::detail::StopFlag;

namespace
{

bool
readable(const StopFlag &flag)
{
    pollfd one = {flag.fd(), POLLIN, 0};
    return poll(&one, 1, 0) == 1;
}

} // namespace

TEST(StopFlag, ARaisedFlagIsReadableAndAClearedOneIsNot)
{
    StopFlag flag;
    EXPECT_FALSE(readable(flag));
    flag.raise();
    EXPECT_TRUE(flag.raised());
    EXPECT_TRUE(readable(flag));
    flag.settle();
    EXPECT_TRUE(readable(flag));
    flag.clear();
    EXPECT_FALSE(flag.raised());
    EXPECT_FALSE(readable(flag));
}

// Otherwise a stop would be lost, or a wait would never sleep again.
TEST(StopFlag, HoweverRaiseAndClearMeetTheFlagAndItsDescriptorAgreeInTheEnd)
{
    StopFlag flag;
    for (int round = 0; round < 20000; ++round)
    {
        std::atomic<bool> go{false};
        std::thread raiser(
            [&]
            {
                while (!go)
                    ;
                flag.raise();
            });
        go = true;
        flag.clear();
        raiser.join();
        flag.settle();
        ASSERT_EQ(flag.raised(), readable(flag)) << round;
        flag.clear();
    }
}

TEST(StopBudget, CountsFromTheStopOrFromTheEndOfTheHandlerThatRanThen)
{
    constexpr auto kLimit = std::chrono::seconds(10);
    const auto far = StopBudget::Clock::now() + std::chrono::hours(1);
    StopFlag flag;
    StopBudget budget(flag, kLimit);
    EXPECT_EQ(budget.cap(far), far);
    EXPECT_EQ(budget.awaited(), &flag);
    flag.raise();
    const auto stopped = budget.end();
    EXPECT_EQ(stopped, flag.raised_at() + kLimit);
    EXPECT_EQ(budget.cap(far, 50), flag.raised_at() + kLimit / 2);
    EXPECT_EQ(budget.awaited(), nullptr);
    flag.raise();
    EXPECT_EQ(budget.end(), stopped); // another one gives no more time
    budget.restart();
    EXPECT_GT(budget.end(), stopped);
    budget.begin();
    const auto end = budget.end();
    EXPECT_GT(end, stopped);
    flag.clear();
    EXPECT_EQ(budget.end(), end);
    budget.reset();
    EXPECT_EQ(budget.cap(far), far);
}

TEST(StopBudget, CountsFromTheExceptionThatEndsARun)
{
    StopFlag flag;
    StopBudget budget(flag, std::chrono::seconds(10));
    budget.begin();
    const auto end = budget.end();
    EXPECT_LT(end, StopBudget::Clock::time_point::max());
    flag.raise();
    EXPECT_EQ(budget.end(), end);
}
