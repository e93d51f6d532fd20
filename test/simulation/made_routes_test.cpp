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
        made.act(4.1, Kind::slow_disk, 5000).act(7.0 + ms / 1000.0, Kind::release);
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

} // namespace

} // namespace outbox::sim
