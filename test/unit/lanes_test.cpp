#include "bgworker/core/lanes.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

using namespace outbox;

TEST(Lanes, TheHashIsStoredAndSoItNeverChanges)
{
    EXPECT_EQ(topic_lane(""), 0xefd01f60ba992926U);
    EXPECT_EQ(key_lane("outbox.event.order", "42"), 0x833e77ecf549a91bU);
    EXPECT_NE(topic_lane("a"), key_lane("a", ""));
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
