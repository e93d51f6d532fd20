#include "bgworker/engine/redelivery/told.h"

#include <gtest/gtest.h>

namespace outbox::test
{

namespace
{

TEST(Told, NamesSoManyTopicsAnHourAndSaysOnceThatThereAreMore)
{
    Told told;
    Steady now;
    now.us = 1000000;
    for (int hour = 0; hour < 2; hour++)
    {
        for (int i = 0; i < Told::kMostNamed; i++)
            EXPECT_EQ(told.how(now), Told::Say::topic) << i;
        EXPECT_EQ(told.how(now), Told::Say::more);
        for (int i = 0; i < 8000; i++)
            EXPECT_EQ(told.how(now), Told::Say::nothing) << i;
        now = plus_ms(now, 3600 * 1000);
    }
}

} // namespace

} // namespace outbox::test
