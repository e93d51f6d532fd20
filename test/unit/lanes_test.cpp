#include "bgworker/engine/common/lanes.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

using namespace outbox;

TEST(Lanes, TheHashIsStoredAndSoItNeverChanges)
{
    EXPECT_EQ(topic_lane(""), 0xefd01f60ba992926U);
    EXPECT_EQ(key_lane("outbox.event.order", "42"), 0x833e77ecf549a91bU);
    EXPECT_NE(topic_lane("a"), key_lane("a", ""));
    EXPECT_EQ(partition_lane("outbox.event.order", 3), 0xc05378cfad5e8873U);
    EXPECT_NE(partition_lane("a", 0), partition_lane("a", 1));
    EXPECT_NE(partition_lane("a", 0), topic_lane("a"));
    EXPECT_NE(partition_lane("a", 0), partition_lane("b", 0));
}

TEST(Lanes, TopicAndKeyAreKeptApart)
{
    EXPECT_NE(key_lane("a", "bc"), key_lane("ab", "c"));
    EXPECT_NE(key_lane("a", "b"), key_lane("b", "a"));
    EXPECT_NE(key_lane("t", "k"), topic_lane("tk"));
}

TEST(Lanes, AMillionKeysShareNoLane)
{
    std::set<Lane> seen;
    for (int i = 0; i < 1000000; i++)
        seen.insert(key_lane("outbox.event.order", std::to_string(i)));
    EXPECT_EQ(seen.size(), 1000000U);
}

TEST(Lanes, ALaneIsClearUntilItIsBlockedAndAfterItIsCleared)
{
    Lanes lanes;
    EXPECT_EQ(lanes.state(1), Lanes::State::clear);
    EXPECT_EQ(lanes.size(), 0U);
    lanes.block(1);
    EXPECT_EQ(lanes.state(1), Lanes::State::blocked);
    EXPECT_EQ(lanes.state(2), Lanes::State::clear);
    lanes.release(1);
    EXPECT_EQ(lanes.state(1), Lanes::State::releasing);
    EXPECT_EQ(lanes.size(), 1U);
    lanes.clear(1);
    EXPECT_EQ(lanes.state(1), Lanes::State::clear);
    EXPECT_EQ(lanes.size(), 0U);
}

TEST(Lanes, TheCountOfReleasingLanesFollowsEveryChange)
{
    Lanes lanes;
    lanes.release(1);
    lanes.release(1);
    EXPECT_EQ(lanes.releasing(), 1U);
    lanes.release(2);
    EXPECT_EQ(lanes.releasing(), 2U);
    lanes.block(1);
    EXPECT_EQ(lanes.releasing(), 1U);
    lanes.block(1);
    EXPECT_EQ(lanes.releasing(), 1U);
    lanes.clear(1);
    EXPECT_EQ(lanes.releasing(), 1U);
    lanes.clear(2);
    lanes.clear(2);
    EXPECT_EQ(lanes.releasing(), 0U);
}

TEST(Lanes, ALineKeepsItsBarrierUntilItIsClear)
{
    Lanes lanes;
    lanes.block(1, 7);
    lanes.release(1, 9);
    ASSERT_NE(lanes.find(1), nullptr);
    EXPECT_EQ(lanes.find(1)->barrier, 7U);
    lanes.close(*lanes.find(1), Steady{100});
    EXPECT_EQ(lanes.state(1), Lanes::State::closing);
    EXPECT_EQ(lanes.releasing(), 1U);
    lanes.clear(1);
    EXPECT_EQ(lanes.releasing(), 0U);
    EXPECT_EQ(lanes.find(1), nullptr);
    lanes.block(1, 9);
    EXPECT_EQ(lanes.find(1)->barrier, 9U);
}

// A lower number may be committed later, when higher ones of its line are on their way.
TEST(Lanes, WhatJoinsALineBehindThePlaceThatIsSentTakesThePlaceBack)
{
    Lanes lanes;
    lanes.release(1);
    Line &line = *lanes.find(1);
    line.joined(5);
    EXPECT_FALSE(line.has_cursor);
    line.has_cursor = true;
    line.cursor = 10;
    line.joined(11);
    EXPECT_EQ(line.cursor, 10);
    line.joined(7);
    EXPECT_EQ(line.cursor, 6);
    line.joined(9);
    EXPECT_EQ(line.cursor, 6);
}
