#include "bgworker/engine/common/lanes.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>
#include <set>
#include <string>

#include "support/lanes_of_0_2.h"

using namespace outbox;

namespace
{

Lane
topic_lane_of_0_2(const std::string &topic)
{
    return test::lane_of_0_2(topic);
}

Lane
key_lane_of_0_2(const std::string &topic, const std::string &key)
{
    return test::lane_of_0_2(topic + '\0' + key);
}

class LaneValues : public testing::Test
{
protected:
    LaneValues() { change_key(); }
    ~LaneValues() override { set_lane_key({}); }

    void change_key() { set_lane_key({random_(), random_()}); }

    std::string text()
    {
        std::string text(random_() % 40, ' ');
        for (char &character : text)
            character = static_cast<char>(random_());
        return text;
    }

    std::mt19937_64 random_{2026};
};

} // namespace

TEST(SipHash, GivesTheVectorsOfItsAuthors)
{
    const SipKey key = {0x0706050403020100U, 0x0f0e0d0c0b0a0908U};
    std::string text;
    for (int i = 0; i < 63; i++)
        text += static_cast<char>(i);
    const std::map<std::size_t, std::uint64_t> vectors = {
        {0, 0x726fdb47dd0e0e31U}, {1, 0x74f839c593dc67fdU},  {7, 0xab0200f58b01d137U},
        {8, 0x93f5f5799a932462U}, {15, 0xa129ca6149be45e5U}, {63, 0x958a324ceb064572U}};
    for (const auto &[length, hash] : vectors)
        EXPECT_EQ(SipHash(key).finish(text.substr(0, length)), hash) << length;
    SipHash by_words(key);
    by_words.add(0x0706050403020100U);
    EXPECT_EQ(by_words.finish(text.substr(8, 7)), vectors.at(15));
}

// Whatever emitters choose, so that no event that is refused holds up more than is refused with it.
TEST_F(LaneValues, NoKeysLaneIsEverATopicsOrAPartitions)
{
    const auto kind = [](Lane lane) { return lane % 4; };
    std::set<Lane> keys;
    std::set<Lane> partitions;
    std::set<Lane> topics;
    for (int i = 0; i < 100000; i++)
    {
        if (i % 100 == 0)
            change_key();
        keys.insert(kind(key_lane(text(), text())));
        partitions.insert(
            kind(partition_lane(topic_lane(text()), static_cast<int>(random_() >> 33))));
        topics.insert(kind(topic_lane(text())));
    }
    EXPECT_EQ(keys, std::set<Lane>({1}));
    EXPECT_EQ(partitions, std::set<Lane>({2}));
    EXPECT_EQ(topics, std::set<Lane>({3}));
}

// By anybody who knows how lanes are computed, and not the database's secret.
TEST_F(LaneValues, WhatWasConstructedForTheHashOf0Point2IsAnyOther)
{
    constexpr const char *kTopic = "outbox.event.lane_maker";
    constexpr const char *kOther = "outbox.event.lane_victim";
    const std::string key = "dqkadanj)eriw0y)=Dfs>";
    ASSERT_EQ(key_lane_of_0_2(kTopic, key), topic_lane_of_0_2(kOther));
    for (int i = 0; i < 1000; i++)
    {
        EXPECT_NE(key_lane(kTopic, key), topic_lane(kOther));
        EXPECT_NE(key_lane(kTopic, key), key_lane(kOther, key));
        change_key();
    }
}

TEST_F(LaneValues, AreOthersInEachDatabase)
{
    const std::array<Lane, 3> here = {topic_lane("t"), partition_lane(topic_lane("t"), 1),
                                      key_lane("t", "k")};
    change_key();
    const std::array<Lane, 3> there = {topic_lane("t"), partition_lane(topic_lane("t"), 1),
                                       key_lane("t", "k")};
    for (std::size_t i = 0; i < here.size(); i++)
        EXPECT_NE(here.at(i), there.at(i));
}

TEST_F(LaneValues, KeepTopicAndKeyApart)
{
    EXPECT_NE(key_lane("a", "bc"), key_lane("ab", "c"));
    EXPECT_NE(key_lane("a", "b"), key_lane("b", "a"));
    EXPECT_NE(key_lane("t", ""), key_lane("", "t"));
}

TEST_F(LaneValues, OfAMillionKeysAreAllDifferent)
{
    std::set<Lane> seen;
    for (int i = 0; i < 1000000; i++)
        seen.insert(key_lane("outbox.event.order", std::to_string(i)));
    EXPECT_EQ(seen.size(), 1000000U);
}

TEST_F(LaneValues, OfATopicsPartitionsAreAllDifferent)
{
    std::set<Lane> seen;
    for (int i = 0; i < 1000000; i++)
        seen.insert(partition_lane(topic_lane("t"), i));
    EXPECT_EQ(seen.size(), 1000000U);
    EXPECT_EQ(seen.count(partition_lane(topic_lane("u"), 0)), 0U);
}

TEST_F(LaneValues, OfThisDatabaseStayAsTheyAre)
{
    for (int i = 0; i < 10000; i++)
    {
        const std::string topic = text();
        const std::string key = text();
        const int partition = static_cast<int>(random_() % 100000);
        for (const Lane lane : {topic_lane(topic), partition_lane(topic_lane(topic), partition),
                                key_lane(topic, key)})
            EXPECT_EQ(present_lane(lane, topic, key), lane);
    }
}

// A topic's is the topic's; the others go to their keys. The values of 0.2 say nothing of what they
// are: a quarter of its keys' look like those of topics.
TEST_F(LaneValues, OfAnotherDatabaseAndOf0Point2AreFound)
{
    for (int i = 0; i < 10000; i++)
    {
        const std::string topic = text();
        const std::string key = text();
        const Lane of_topic = topic_lane(topic);
        const Lane of_partition =
            partition_lane(topic_lane(topic), static_cast<int>(random_() % 1000));
        const Lane of_key = key_lane(topic, key);
        change_key();
        for (const Lane lane : {of_topic, topic_lane_of_0_2(topic)})
            EXPECT_EQ(present_lane(lane, topic, key), topic_lane(topic));
        for (const Lane lane : {of_partition, of_key, key_lane_of_0_2(topic, key), Lane{0}})
            EXPECT_EQ(present_lane(lane, topic, key), key_lane(topic, key));
    }
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
