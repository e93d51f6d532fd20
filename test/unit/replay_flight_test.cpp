#include "bgworker/engine/replay/replay_flight.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace outbox::test
{

namespace
{

using Places = std::vector<std::int64_t>;

// Hands over all that may go.
Places
send_all(ReplayFlight &flight)
{
    Places sent;
    for (std::int64_t place = flight.next(); place >= 0; place = flight.next())
    {
        sent.push_back(place);
        flight.sent(10);
    }
    return sent;
}

ReplayFlight
started(std::int64_t size, const ReplayFlight::Counts &counts = {})
{
    ReplayFlight flight;
    flight.start(counts, size);
    return flight;
}

// By a sink that refuses records one by one: what was behind the refused one, of its key.
TEST(ReplayFlight, WhatIsGivenBackGoesOutAgainBeforeWhatComesLater)
{
    ReplayFlight flight = started(6);
    for (int i = 0; i < 5; i++)
        flight.sent(10);
    EXPECT_TRUE(flight.refused(1));
    EXPECT_TRUE(flight.returned(2));
    EXPECT_TRUE(flight.returned(4));
    EXPECT_FALSE(flight.returned(4));
    EXPECT_EQ(flight.on_their_way(), 2U); // 0 and 3
    EXPECT_EQ(send_all(flight), (Places{2, 4, 5}));
    for (const std::int64_t place : {0, 2, 3, 4, 5})
        EXPECT_TRUE(flight.published(place));
    EXPECT_TRUE(flight.settle());
    EXPECT_TRUE(flight.done());
    EXPECT_EQ(flight.counts().published, 5);
    EXPECT_EQ(flight.counts().refused, 1);
}

TEST(ReplayFlight, GoesInOrderAndCountsUpToTheFirstThatIsNotKnown)
{
    ReplayFlight flight = started(4);
    EXPECT_EQ(send_all(flight), (Places{0, 1, 2, 3}));
    EXPECT_TRUE(flight.published(1));
    EXPECT_TRUE(flight.published(2));
    EXPECT_FALSE(flight.settle());
    EXPECT_EQ(flight.first(), 0);
    EXPECT_TRUE(flight.published(0));
    EXPECT_TRUE(flight.settle());
    EXPECT_EQ(flight.first(), 3);
    EXPECT_TRUE(flight.published(3));
    EXPECT_TRUE(flight.settle());
    EXPECT_TRUE(flight.done());
    EXPECT_EQ(flight.counts().published, 4);
}

TEST(ReplayFlight, GoesOnBehindWhatIsCounted)
{
    ReplayFlight flight = started(10, {5, 2, 1});
    EXPECT_EQ(send_all(flight), (Places{8, 9}));
    flight.published(8);
    flight.published(9);
    flight.settle();
    EXPECT_TRUE(flight.done());
    EXPECT_EQ(flight.counts().published, 7);
    EXPECT_EQ(flight.counts().refused, 2);
    EXPECT_EQ(flight.counts().missing, 1);
    EXPECT_TRUE(started(8, {5, 2, 1}).done());
    EXPECT_EQ(started(8, {5, 2, 1}).next(), -1);
}

TEST(ReplayFlight, IsBoundedInEventsAndBytes)
{
    ReplayFlight flight = started(1000000);
    EXPECT_EQ(send_all(flight).size(), ReplayFlight::kMost);
    flight.published(1);
    flight.settle();
    EXPECT_EQ(flight.next(), -1); // the first is not through
    flight.published(0);
    flight.settle();
    EXPECT_EQ(send_all(flight), (Places{256, 257}));

    ReplayFlight large = started(3);
    EXPECT_TRUE(large.has_room(ReplayFlight::kMostBytes + 1));
    large.sent(ReplayFlight::kMostBytes + 1);
    EXPECT_FALSE(large.has_room(1));
    large.published(0);
    EXPECT_TRUE(large.has_room(ReplayFlight::kMostBytes));
}

TEST(ReplayFlight, AnEventRefusedAloneIsLeftOutAndOnlyWhatWasNotAcknowledgedGoesAgain)
{
    ReplayFlight flight = started(5);
    send_all(flight);
    flight.published(0);
    flight.published(3);
    EXPECT_TRUE(flight.suspected(1));
    EXPECT_EQ(flight.take_back(), 1);
    flight.settle();
    EXPECT_EQ(flight.first(), 2);
    EXPECT_EQ(send_all(flight), (Places{2, 4}));
    flight.published(2);
    flight.published(4);
    flight.settle();
    EXPECT_TRUE(flight.done());
    EXPECT_EQ(flight.counts().published, 4);
    EXPECT_EQ(flight.counts().refused, 1);
}

TEST(ReplayFlight, OfSeveralThatWereRefusedEachIsTriedAlone)
{
    ReplayFlight flight = started(6);
    send_all(flight);
    flight.published(0);
    for (const std::int64_t place : {1, 2, 3})
        flight.suspected(place);
    EXPECT_EQ(flight.take_back(), -1);
    EXPECT_EQ(send_all(flight), (Places{1}));
    flight.published(1);
    EXPECT_EQ(send_all(flight), (Places{2}));
    flight.suspected(2);
    EXPECT_EQ(flight.take_back(), 2);
    EXPECT_EQ(send_all(flight), (Places{3}));
    flight.published(3);
    // What was not suspected waits for the last that was, and goes together again.
    EXPECT_EQ(send_all(flight), (Places{4, 5}));
}

TEST(ReplayFlight, NewsOfWhatIsNotOnItsWayIsIgnored)
{
    ReplayFlight flight = started(3);
    EXPECT_FALSE(flight.published(0));
    flight.sent(10);
    EXPECT_FALSE(flight.published(1));
    EXPECT_FALSE(flight.published(-1));
    EXPECT_TRUE(flight.published(0));
    EXPECT_FALSE(flight.published(0));
    EXPECT_FALSE(flight.refused(0));
    EXPECT_FALSE(flight.suspected(0));
    flight.settle();
    EXPECT_FALSE(flight.published(0));
    EXPECT_EQ(flight.on_their_way(), 0U);
}

TEST(ReplayFlight, RefusalsInARowAreThoseSinceTheLastThatWasPublished)
{
    ReplayFlight flight = started(10);
    for (int i = 0; i < 3; i++)
        flight.left_out(false);
    flight.left_out(true);
    flight.left_out(false);
    flight.settle();
    EXPECT_EQ(flight.refused_in_a_row(), 4);
    flight.sent(10);
    flight.published(5);
    flight.left_out(false);
    flight.settle();
    EXPECT_EQ(flight.refused_in_a_row(), 1);
    EXPECT_EQ(flight.counts().missing, 1);
}

// Brokers acknowledge in any order, refuse batches that hold a bad event, lose connections.
TEST(ReplayFlight, WhateverHappensEachEventIsPublishedOnceMoreThanItIsLostAndBadOnesAreFound)
{
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    for (int round = 0; round < 50; round++)
    {
        const auto size = static_cast<std::int64_t>(1 + random() % 700);
        const auto bad = [&](std::int64_t place) { return place % 37 == 5; };
        ReplayFlight flight = started(size);
        std::map<std::int64_t, int> arrived;
        Places under_way;
        for (int step = 0; step < 100000 && !flight.done(); step++)
        {
            const Places more = send_all(flight);
            under_way.insert(under_way.end(), more.begin(), more.end());
            ASSERT_FALSE(under_way.empty());
            if (random() % 20 == 0)
            {
                under_way.clear(); // lost
                flight.take_back();
            }
            else
            {
                const std::size_t batch = 1 + random() % under_way.size();
                bool refused = false;
                for (std::size_t i = 0; i < batch; i++)
                    refused = refused || bad(under_way[i]);
                for (std::size_t i = 0; i < batch; i++)
                    if (refused)
                        flight.suspected(under_way[i]);
                    else
                    {
                        flight.published(under_way[i]);
                        arrived[under_way[i]]++;
                    }
                under_way.erase(under_way.begin(),
                                under_way.begin() + static_cast<std::ptrdiff_t>(batch));
                if (refused)
                {
                    under_way.clear();
                    flight.take_back();
                }
            }
            flight.settle();
        }
        ASSERT_TRUE(flight.done());
        std::int64_t refused = 0;
        for (std::int64_t place = 0; place < size; place++)
        {
            refused += bad(place) ? 1 : 0;
            ASSERT_EQ(arrived[place], bad(place) ? 0 : 1) << place;
        }
        ASSERT_EQ(flight.counts().refused, refused);
        ASSERT_EQ(flight.counts().published, size - refused);
    }
}

} // namespace

} // namespace outbox::test
