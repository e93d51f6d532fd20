#include "core/version.h"

#include <gtest/gtest.h>

using outbox::compare_versions;

TEST(Version, NumbersBetweenDotsAreComparedAsNumbers)
{
    EXPECT_EQ(compare_versions("0.2", "0.2"), 0);
    EXPECT_LT(compare_versions("0.1", "0.2"), 0);
    EXPECT_GT(compare_versions("0.10", "0.9"), 0);
    EXPECT_GT(compare_versions("1.0", "0.99"), 0);
    EXPECT_LT(compare_versions("0.2", "0.2.1"), 0);
    EXPECT_EQ(compare_versions("1", "1.0"), 0);
}

TEST(Version, WhatIsNoVersionIsOlderThanAllAndEqualToItselfOnly)
{
    for (const char *text :
         {"", "unpackaged", "0.2-test", "1.", ".1", "1..2", "99999999999", "-1", "1.x"})
    {
        EXPECT_LT(compare_versions(text, "0.1"), 0) << text;
        EXPECT_GT(compare_versions("0.1", text), 0) << text;
        EXPECT_EQ(compare_versions(text, text), 0) << text;
    }
    EXPECT_NE(compare_versions("unpackaged", "0.2-test"), 0);
}
