#include <atomic>
#include <thread>

#include <gtest/gtest.h>
#include <poll.h>

#include "client/src/stop_flag.h"

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
