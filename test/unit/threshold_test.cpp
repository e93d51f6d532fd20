#include "bgworker/engine/common/threshold.h"

#include <gtest/gtest.h>

namespace outbox::test
{

namespace
{

using News = Threshold::News;

TEST(Threshold, TellsOnceThatItIsPassedAndOnceThatItIsOver)
{
    Threshold threshold;
    EXPECT_EQ(threshold.observe(99, 100, 50), News::none);
    EXPECT_EQ(threshold.observe(100, 100, 50), News::passed);
    EXPECT_TRUE(threshold.passed());
    EXPECT_EQ(threshold.observe(1000, 100, 50), News::none);
    EXPECT_EQ(threshold.observe(49, 100, 50), News::back);
    EXPECT_EQ(threshold.observe(0, 100, 50), News::none);
}

TEST(Threshold, ASwingAroundALimitIsNoNews)
{
    Threshold threshold;
    EXPECT_EQ(threshold.observe(100, 100, 50), News::passed);
    for (int i = 0; i < 10; ++i)
        EXPECT_EQ(threshold.observe(i % 2 == 0 ? 99 : 101, 100, 50), News::none);
    EXPECT_EQ(threshold.observe(49, 100, 50), News::back);
    for (int i = 0; i < 10; ++i)
        EXPECT_EQ(threshold.observe(i % 2 == 0 ? 51 : 49, 100, 50), News::none);
}

TEST(Threshold, ALimitOfNoughtSwitchesItOff)
{
    Threshold threshold;
    EXPECT_EQ(threshold.observe(1000, 0, 0), News::none);
    EXPECT_EQ(threshold.observe(1000, 10, 5), News::passed);
    EXPECT_EQ(threshold.observe(1000, 0, 0), News::back);
}

} // namespace

} // namespace outbox::test
