#include "bgworker/engine/redelivery/told.h"

#include <gtest/gtest.h>

namespace outbox::test
{

namespace
{

TEST(Told, SoManyAnHourAreNamedAndOnceThatThereAreMore)
{
    NamedAnHour named;
    Steady now;
    now.us = 1000000;
    for (int hour = 0; hour < 2; hour++)
    {
        for (int i = 0; i < NamedAnHour::kMost; i++)
            EXPECT_EQ(named.next(now), NamedAnHour::Say::one) << i;
        EXPECT_EQ(named.next(now), NamedAnHour::Say::more);
        for (int i = 0; i < 8000; i++)
            EXPECT_EQ(named.next(now), NamedAnHour::Say::nothing) << i;
        now = plus_ms(now, 3600 * 1000);
    }
}

} // namespace

} // namespace outbox::test
