#include "bgworker/engine/stream/held.h"

#include <gtest/gtest.h>

using namespace outbox;

TEST(Held, LinesKeepTheirOrderAndGoWhenTheyAreEmpty)
{
    Held held;
    EXPECT_TRUE(held.is_empty());
    EXPECT_FALSE(held.has(1));
    held.add(1, 10, true);
    held.add(2, 11, false);
    held.add(1, 12, false);
    EXPECT_TRUE(held.has(1));
    EXPECT_TRUE(held.lines().at(1).for_topic) << "as it was when the line began";
    EXPECT_EQ(held.first(1), 10U);
    EXPECT_TRUE(held.drop_first(1));
    EXPECT_EQ(held.first(1), 12U);
    EXPECT_FALSE(held.drop_first(1));
    EXPECT_FALSE(held.has(1));
    EXPECT_FALSE(held.is_empty());
    held.clear();
    EXPECT_TRUE(held.is_empty());
}
