// Histories that were made for changes of routes, and for what was set aside then.
#include "made.h"

#include <gtest/gtest.h>

namespace outbox::sim
{

namespace
{

// Routes change while a person holds a row, and the topic that it goes to now is refused. The row
// is to follow, so an earlier event of its key that is read only then waits before it.
TEST(MadeRoutes, WhatIsReadDuringAStartWaitsForRowsThatArePersonsStill)
{
    int seen = 0;
    for (int i = 0; i < 100; i++)
    {
        Made made;
        made.history().seed += static_cast<std::uint64_t>(i);
        made.history().types = 2;
        made.act(0.1, Kind::topic_forbidden, 1, 1).emit(0.5, 0, 7);
        made.act(1.0, Kind::lead, 0, 0, -1).act(1.0, Kind::lead, 0, 1, -1);
        made.one(1.2, 0, 0).one(1.7, 0, 0).act(2.23, Kind::pause).act(2.24, Kind::crash);
        made.act(2.8, Kind::hold, 0).act(7.0, Kind::route, 0, 1).act(8.0, Kind::resume);
        made.act(10.0, Kind::release).act(13.0, Kind::topic_fine, 1);
        EXPECT_EQ(made.outcome(), "") << i;
        seen += made.outcome(Mutant::reads_past_left).substr(0, 5) == "order" ? 1 : 0;
    }
    EXPECT_GT(seen, 0);
}

// Routes change while a person holds the head of a partition's line, and the topic that it goes to
// now is refused. Let go, it is not tried before it has moved to the line of its key: what was
// refused where it was would be written there again behind its back, and a later event of the key
// would go out first.
TEST(MadeRoutes, WhatIsToFollowIsNotTriedBefore)
{
    int seen = 0;
    for (int ms = 0; ms < 300; ms += 5)
    {
        Made made;
        made.history().types = 2;
        made.history().backoff_initial_ms = 50;
        made.history().backoff_max_ms = 250;
        made.act(0.1, Kind::topic_forbidden, 1, 1);
        made.lead(0, -1);
        made.emit(0.5, 0, 7).one(1.2, 0, 0).act(2.8, Kind::hold, 0).act(4.0, Kind::route, 0, 1);
        made.act(4.1, Kind::slow_disk, 11000).act(7.0 + ms / 1000.0, Kind::release);
        made.act(8.5, Kind::slow_disk, 0).act(9.0, Kind::topic_fine, 1);
        EXPECT_EQ(made.outcome(), "") << ms;
        seen += made.outcome(Mutant::tries_left).substr(0, 5) == "order" ? 1 : 0;
    }
    EXPECT_GT(seen, 0);
}

// The disk is full when it is to be noted that a topic has refused an event; then routes change,
// and the step that moves the rows cannot be written, either. The next one notes no more what the
// topic of before has refused: it would get the new one, and stay in its line.
TEST(MadeRoutes, WhatWasRefusedIsNotedBeforeRoutesAreLoaded)
{
    int seen = 0;
    for (std::uint64_t i = 0; i < 20; i++)
    {
        Made made;
        made.history().seed += i;
        made.history().types = 2;
        made.history().backoff_initial_ms = made.history().backoff_max_ms = 50;
        made.act(0.1, Kind::topic_forbidden, 0).emit(0.5, 0, 7).act(3.0, Kind::no_space, 2);
        made.act(3.5, Kind::route, 0, 1).one(3.6, 0, 0).one(3.65, 0, 1).one(3.7, 0, 2);
        EXPECT_EQ(made.outcome(), "") << i;
        seen += made.outcome(Mutant::loads_with_results).substr(0, 5) == "order" ? 1 : 0;
    }
    EXPECT_GT(seen, 0);
}

// Routes change while hundreds of rows wait for a topic that is forbidden, and the disk is slow:
// another topic is not to notice. Nor at a start, at which all are looked at, too.
TEST(MadeRoutes, AChangeOfRoutesWaitsForNoRows)
{
    for (const Kind kind : {Kind::route, Kind::restart})
    {
        Made made;
        made.history().types = 2;
        made.lead(0, 0);
        made.lead(1, 1);
        made.act(0.1, Kind::topic_forbidden, 0, 1).emit(0.5, 0, 900).emit(0.6, 1, 7);
        made.act(5.0, Kind::slow_disk, 10000).act(5.1, kind);
        for (int i = 0; i < 120; i++)
            made.one(4.0 + i * 0.1, 1, 10 + i % 2);
        made.act(16.0, Kind::slow_disk, 0).act(20.0, Kind::topic_fine, 0).in_order();
        EXPECT_EQ(made.outcome(), "") << static_cast<int>(kind);
        EXPECT_EQ(made.outcome(Mutant::waits_for_rows).substr(0, 7), "stalled")
            << static_cast<int>(kind);
    }
}

// Events go to another topic, and while their rows move there, few at a time, a new one comes.
TEST(MadeRoutes, WhatIsNewComesBehindRowsThatAreStillToMove)
{
    int passed = 0;
    int passed_many = 0;
    for (int ms = 0; ms < 100; ms += 10)
    {
        Made made;
        made.history().types = 2;
        made.history().rows_at_once = 4;
        made.lead(0, 0);
        made.lead(1, 1);
        made.act(0.1, Kind::topic_forbidden, 0, 1).emit(0.5, 0, 3).emit(0.6, 1, 7);
        for (int i = 0; i < 30; i++)
            made.one(1.0 + i * 0.01, 0, i < 20 ? 5 : 6);
        made.one(1.4, 0, 4).act(4.9, Kind::slow_disk, 5000).act(5.0, Kind::route, 0, 1);
        for (const int key : {4, 5, 6})
            made.one(5.01 + ms / 1000.0, 0, key);
        made.act(8.0, Kind::slow_disk, 0);
        EXPECT_EQ(made.outcome(), "") << ms;
        passed += made.outcome(Mutant::passes_rows).substr(0, 5) == "order" ? 1 : 0;
        passed_many += made.outcome(Mutant::passes_many_rows).substr(0, 5) == "order" ? 1 : 0;
    }
    EXPECT_GT(passed, 0);
    EXPECT_GT(passed_many, 0);
}

// Events go to another topic, and while their rows move there one of each of their keys comes, all
// of them at once. Another topic is not to notice.
TEST(MadeRoutes, ABurstOfKeysThatHaveRowsHoldsUpNoOtherTopic)
{
    constexpr int kKeys = 80;
    Made made;
    made.history().types = 3;
    for (int topic = 0; topic < 3; topic++)
        made.lead(topic, topic);
    made.act(0.1, Kind::topic_forbidden, 0, 1).act(0.1, Kind::topic_forbidden, 2, 1);
    made.act(0.5, Kind::begin, 900);
    for (int i = 0; i < 2 * kKeys; i++)
        made.act(0.5, Kind::emit, 900, 0, 100 + i % kKeys);
    made.act(0.5, Kind::commit, 900, 1).emit(0.6, 1, 7);
    made.act(4.9, Kind::slow_disk, 8000).act(5.0, Kind::route, 0, 2).act(5.0, Kind::begin, 901);
    for (int i = 0; i < kKeys; i++)
        made.act(5.0, Kind::emit, 901, 0, 100 + i);
    made.act(5.0, Kind::commit, 901, 1);
    for (int i = 0; i < 80; i++)
        made.one(4.0 + i * 0.1, 1, 10 + i % 2);
    made.act(14.0, Kind::slow_disk, 0).act(14.1, Kind::topic_fine, 2).in_order();
    EXPECT_EQ(made.outcome(), "");
    EXPECT_EQ(made.outcome(Mutant::looks_without_limit).substr(0, 7), "stalled");
}

// Rows of a key were looked at, and stayed in the line of their topic, when an event comes that
// joins the line of the key, as they are many. They follow, and go out before it.
TEST(MadeRoutes, RowsFollowIntoTheLineThatANewEventOfTheirKeyHasJoined)
{
    constexpr int kKeys = 20;
    Made made;
    made.history().types = 2;
    made.history().rows_at_once = 4;
    made.lead(0, 0);
    made.lead(1, 1);
    made.act(0.1, Kind::topic_forbidden, 0, 1).act(0.5, Kind::begin, 900);
    for (int i = 0; i < 5 * kKeys; i++)
        made.act(0.5, Kind::emit, 900, 0, 100 + i % kKeys);
    for (int i = 0; i < 100; i++)
        made.act(0.5, Kind::emit, 900, 0, 10);
    made.act(0.5, Kind::commit, 900, 1).act(4.9, Kind::slow_disk, 10000);
    made.act(5.0, Kind::blocking, 1, 1);
    for (int i = 0; i < kKeys; i++)
        made.one(6.2, 0, 100 + i);
    made.act(10.0, Kind::topic_fine, 0).act(15.0, Kind::slow_disk, 0);
    EXPECT_EQ(made.outcome(), "");
    EXPECT_EQ(made.outcome(Mutant::leaves_many).substr(0, 5), "order");
    EXPECT_EQ(made.outcome(Mutant::releases_ungathered).substr(0, 5), "order");
}

// The line of a key has a row when routes change. An event of the key comes of which all rows can
// be looked at; then so many others that this is forgotten; and then another one, when there are
// too many. Both are in the same line.
TEST(MadeRoutes, WhatIsNewOfAKeyThatHasALineJoinsNoWiderOne)
{
    constexpr int kRows = 200;
    int seen = 0;
    for (std::uint64_t i = 0; i < 6; i++)
    {
        Made made;
        made.history().lanes = i;
        made.history().types = 2;
        made.history().max_attempts = 1000;
        made.history().backoff_initial_ms = made.history().backoff_max_ms = 100;
        made.history().rows_at_once = 2;
        made.lead(0, 0);
        made.lead(1, 1);
        made.emit(0.3, 0, 7).emit(0.3, 1, 7).one(0.5, 0, 100, Act::unreadable);
        made.act(1.0, Kind::topic_forbidden, 0, 1).act(1.4, Kind::repair);
        made.emit(1.5, 0, kRows).act(1.6, Kind::begin, 900).act(1.6, Kind::emit, 900, 0, 100);
        made.emit(1.7, 0, kRows).act(4.9, Kind::slow_disk, 2000).act(5.0, Kind::blocking, 1, 1);
        made.act(5.6, Kind::commit, 900, 1);
        for (int other = 0; other < 40; other++)
            made.one(5.65, 1, 10 + other);
        made.one(5.7, 0, 100).act(10.0, Kind::slow_disk, 0);
        made.act(11.0, Kind::broker_slow, 0, 300).act(12.0, Kind::topic_fine, 0);
        EXPECT_EQ(made.outcome(), "") << i;
        seen += made.outcome(Mutant::joins_wider_lines).substr(0, 5) == "order" ? 1 : 0;
    }
    EXPECT_GT(seen, 0);
}

// A person holds hundreds of rows while routes change. When they are let go they follow, without
// all lines being read again for each.
TEST(MadeRoutes, WhatAPersonHeldFollowsAtOnce)
{
    Made made;
    made.history().types = 2;
    made.history().active = 100 * kSecond;
    made.lead(0, 0);
    made.lead(1, 1);
    made.act(0.1, Kind::topic_forbidden, 0, 1).act(0.1, Kind::topic_forbidden, 1, 1);
    made.emit(0.5, 0, 400).act(4.0, Kind::hold, -1).act(4.9, Kind::slow_disk, 12000);
    made.act(5.0, Kind::route, 0, 1).act(15.0, Kind::release).act(16.0, Kind::topic_fine, 1);
    EXPECT_EQ(made.outcome(), "");
    EXPECT_EQ(made.outcome(Mutant::reloads_for_some).substr(0, 5), "stuck");
}

} // namespace

} // namespace outbox::sim
