// Histories that were made for the rules of lines and producers, which those of chance hardly ever
// put to the test.
#include "made.h"

#include <gtest/gtest.h>

namespace outbox::sim
{

namespace
{

// What is refused for itself is tried again while an earlier event of its key is still queued
// behind a slow answer.
TEST(MadeLines, ALineWaitsForWhatTheStreamHas)
{
    Made made;
    made.history().types = 1;
    made.lead(0, 0);
    made.emit(0.5, 0, 7).act(2.0, Kind::broker_slow, 0, 800);
    made.one(2.1, 0, 2).one(2.15, 0, 0).one(2.2, 0, 0, Act::unreadable).act(2.25, Kind::repair);
    made.act(6.0, Kind::broker_slow, 0, 0);
    EXPECT_EQ(made.outcome(), "");
    EXPECT_EQ(made.outcome(Mutant::lacks_barrier).substr(0, 5), "order");
    EXPECT_EQ(made.outcome(Mutant::ignores_barrier).substr(0, 5), "order");
}

// The row of an event that was published is held by a person for a while. What waited for it goes
// out when it can be removed.
TEST(MadeLines, ARowThatIsHeldBlocksItsLaneNoLonger)
{
    int seen = 0;
    for (int ms = 0; ms < 1500; ms += 50)
    {
        Made made;
        made.history().types = 1;
        made.history().backoff_initial_ms = made.history().backoff_max_ms = 1000;
        made.emit(0.5, 0, 7).one(1.0, 0, 0, Act::unreadable).one(1.2, 0, 0);
        made.brokers(1.3, Kind::broker_slow, 150);
        made.act(1.4, Kind::repair).act(1.5 + ms / 1000.0, Kind::hold, 0);
        made.act(4.0, Kind::release).in_order();
        EXPECT_EQ(made.outcome(), "") << ms;
        seen += made.outcome(Mutant::forgets_held).empty() ? 0 : 1;
    }
    EXPECT_GT(seen, 0);
}

// A broker hangs with an event, and nothing else is in flight: a line that waits for what the
// stream has goes out soon all the same.
TEST(MadeLines, ALineDoesNotWaitForABrokerThatHangs)
{
    Made made;
    made.history().types = 2;
    made.history().active = 100 * kSecond;
    made.lead(0, 0);
    made.lead(1, 1);
    made.emit(0.5, 0, 7).emit(0.5, 1, 7).act(42.0, Kind::broker_hangs, 0);
    made.one(42.1, 0, 0).one(42.2, 1, 0, Act::unreadable).act(42.3, Kind::repair);
    EXPECT_EQ(made.outcome(), "");
    EXPECT_EQ(made.outcome(Mutant::waiting_is_never_stuck).substr(0, 7), "stalled");
}

// A broker hangs with all that may be in flight.
TEST(MadeLines, ABrokerThatHangsDoesNotFillAll)
{
    Made made;
    made.history().types = 2;
    made.history().active = 100 * kSecond;
    made.lead(0, 0);
    made.lead(1, 1);
    made.emit(0.5, 0, 7).emit(0.5, 1, 7).act(42.0, Kind::broker_hangs, 0);
    made.emit(42.1, 0, 130).one(42.2, 1, 0);
    EXPECT_EQ(made.outcome(), "");
    EXPECT_EQ(made.outcome(Mutant::full_is_never_stuck).substr(0, 7), "stalled");
}

// What others did not wait for is read again after a start, as an event before it was not
// acknowledged. It has its row, and goes out once.
TEST(MadeLines, WhatHasARowIsNotHandedOverAgain)
{
    Made made;
    made.history().types = 2;
    made.history().backoff_initial_ms = made.history().backoff_max_ms = 3000;
    made.lead(0, 0);
    made.lead(1, 1);
    made.act(0.1, Kind::blocking, 0, 0).emit(0.5, 0, 7).emit(0.5, 1, 7);
    made.act(2.0, Kind::broker_slow, 1, 1500).one(2.1, 1, 0);
    made.one(2.2, 0, 0, Act::unreadable).act(2.3, Kind::restart).act(2.4, Kind::repair);
    EXPECT_EQ(made.outcome(), "");
    EXPECT_EQ(made.outcome(Mutant::forgets_rows).substr(0, 8), "repeated");
}

// An earlier event is in the line of a key behind one that has FAILED, as it came back from the
// stream's producer. When both are tried again its topic refuses it: it stays before the other.
TEST(MadeLines, WhatIsRefusedWithItsTopicStaysInTheLineOfItsKey)
{
    Made made;
    made.history().types = 1;
    made.history().max_attempts = 1;
    made.lead(0, 0);
    made.emit(0.5, 0, 7).act(2.0, Kind::broker_slow, 0, 500);
    made.one(2.1, 0, 1, Act::invalid).one(2.15, 0, 0).one(2.2, 0, 0, Act::unreadable);
    made.act(3.1, Kind::discard, 0).act(3.2, Kind::repair).act(3.3, Kind::broker_slow, 0, 300);
    made.act(3.4, Kind::topic_forbidden, 0).act(3.5, Kind::retry).act(3.7, Kind::pause);
    made.act(4.5, Kind::topic_fine, 0).act(4.5, Kind::broker_slow, 0, 0).act(6.0, Kind::resume);
    EXPECT_EQ(made.outcome(), "");
    EXPECT_EQ(made.outcome(Mutant::refuses_to_wider).substr(0, 5), "order");
}

// Events wait until their topic is described, which it is not: so one after the other joins the
// topic's line, and just before the last of a key the topic is there. The key has an older line,
// but the last joins that of the topic, as its key's event before it is there.
TEST(MadeLines, WhatIsPlacedFollowsWhatHasNoPlace)
{
    int seen = 0;
    for (int ms = 2000; ms < 3000; ms += 3)
    {
        Made made;
        made.history().types = 2;
        made.history().backoff_initial_ms = made.history().backoff_max_ms = 3000;
        made.emit(0.3, 0).one(0.5, 0, 1, Act::unreadable);
        made.act(0.9, Kind::topic_missing, 0).act(0.9, Kind::topic_forbidden, 1).one(1.0, 1, 3);
        made.act(1.2, Kind::slow_disk, 5000).emit(1.3, 0, 60).one(1.31, 0, 1).one(1.32, 0, 1);
        const double paused = ms / 1000.0;
        made.act(paused, Kind::pause).act(paused + 0.001, Kind::topic_fine, 0);
        made.act(paused + 0.5, Kind::slow_disk, 0).act(paused + 0.6, Kind::repair);
        made.act(paused + 1.0, Kind::resume);
        EXPECT_EQ(made.outcome(), "");
        seen += made.outcome(Mutant::forgets_unplaced).substr(0, 5) == "order" ? 1 : 0;
    }
    EXPECT_GT(seen, 0);
}

// A person holds the row of an event while that is published, and so it stays. The next event of
// its line, refused as nobody has looked whether the topic is there now, does not wait for that.
TEST(MadeLines, WhatIsPublishedAndHeldIsNotWaitedFor)
{
    Made made;
    made.history().types = 1;
    made.history().backoff_initial_ms = made.history().backoff_max_ms = 300;
    made.act(0.1, Kind::topic_forbidden, 0, 1).emit(1.0, 0, 7);
    made.act(2.8, Kind::hold, 4).act(7.8, Kind::topic_fine, 0).one(9.2, 0, 2);
    EXPECT_EQ(made.outcome(), "");
    EXPECT_EQ(made.outcome(Mutant::waits_for_removal).substr(0, 7), "stalled");
}

// Of a topic's line one partition does not answer, and the disk is slow: what is on its way there
// moves to the partition's line in slices, and so does what follows.
TEST(MadeLines, WhatMovesToAnotherLineDoesSoInSlices)
{
    int parted = 0;
    int released = 0;
    for (int ms = 2000; ms < 2600; ms += 40)
    {
        Made made;
        made.history().types = 1;
        made.lead(0, 0);
        made.act(0.1, Kind::topic_forbidden, 0).emit(0.5, 0, 600).act(2.0, Kind::topic_fine, 0);
        const double hangs = ms / 1000.0;
        made.act(hangs, Kind::broker_hangs, 0).act(hangs + 0.3, Kind::slow_disk, 40000);
        made.act(9.0, Kind::slow_disk, 0).act(10.0, Kind::broker_up, 0);
        EXPECT_EQ(made.outcome(), "");
        parted += made.outcome(Mutant::parts_at_once).substr(0, 7) == "stalled" ? 1 : 0;
        released += made.outcome(Mutant::releases_at_once).substr(0, 7) == "stalled" ? 1 : 0;
    }
    EXPECT_GT(parted, 0);
    EXPECT_GT(released, 0);
}

// Others did not wait for an event when it was refused; later they would have to, and it is refused
// again: they still do not.
TEST(MadeLines, WhatHasLostItsPlaceGetsNoneAgain)
{
    Made made;
    made.history().types = 1;
    made.act(0.1, Kind::blocking, 0, 0).emit(0.5, 0, 7).one(1.0, 0, 0, Act::unreadable);
    made.act(1.02, Kind::blocking, 0, 1).one(10.0, 0, 0);
    EXPECT_EQ(made.outcome(), "");
    EXPECT_EQ(made.outcome(Mutant::takes_place_again).substr(0, 7), "stalled");
}

// A topic's line goes out, and a broker hangs with what goes to one partition: those behind it that
// go to the other one do not wait for that.
TEST(MadeLines, ATopicsLineDoesNotWaitForOnePartition)
{
    int seen = 0;
    for (int i = 0; i < 20; i++)
    {
        Made made;
        made.history().seed += static_cast<std::uint64_t>(i);
        made.history().types = 1;
        made.history().active = 100 * kSecond;
        made.act(0.1, Kind::lead, 0, 0, 0).act(0.1, Kind::lead, 0, 1, 1).emit(0.5, 0, 7);
        made.act(41.0, Kind::topic_forbidden, 0).emit(41.1, 0, 14).act(41.5, Kind::broker_hangs, 0);
        made.act(42.0, Kind::topic_fine, 0);
        for (int event = 0; event < 20; event++)
            made.one(43.0 + event * 0.1, 0, 0);
        EXPECT_EQ(made.outcome(), "") << i;
        seen += made.outcome(Mutant::topic_waits_for_partition).substr(0, 7) == "stalled" ? 1 : 0;
    }
    EXPECT_GT(seen, 0);
}

// The disk is full just when an event is set aside: that does not count, and the position waits.
TEST(MadeLines, WhatIsRolledBackIsNotSetAside)
{
    int seen = 0;
    for (int i = 0; i < 20; i++)
    {
        Made made;
        made.history().seed += static_cast<std::uint64_t>(i);
        made.history().types = 1;
        made.emit(0.5, 0, 7).act(1.0, Kind::topic_forbidden, 0).act(1.9, Kind::no_space, 1);
        made.emit(2.0, 0, 20).act(5.0, Kind::topic_fine, 0);
        EXPECT_EQ(made.outcome(), "") << i;
        seen += made.outcome(Mutant::counts_before_end).substr(0, 4) == "lost" ? 1 : 0;
    }
    EXPECT_GT(seen, 0);
}

// Of a topic's line an event of which no record can be made comes behind one of its key that is on
// its way, and comes back: it is not refused before that.
TEST(MadeLines, WhatIsOnItsWayIsNotOvertakenByARefusal)
{
    Made made;
    made.history().types = 1;
    made.history().max_attempts = 1;
    made.lead(0, 0);
    made.emit(0.5, 0, 7).act(1.0, Kind::topic_forbidden, 0).one(1.1, 0, 2);
    made.one(1.5, 0, 1, Act::invalid).one(1.6, 0, 0).one(1.7, 0, 0, Act::unreadable);
    made.act(1.8, Kind::broker_slow, 0, 300).act(2.5, Kind::topic_fine, 0);
    made.act(5.0, Kind::broker_slow, 0, 0);
    EXPECT_EQ(made.outcome(), "");
    EXPECT_EQ(made.outcome(Mutant::refuses_out_of_turn).substr(0, 5), "stuck");
}

// Of a transaction that commits late the first event waits for its topic, and the second is not
// read before the relay starts again: there is no room. A row of their key that came before both,
// with a higher number, waits for the partition. What is read again joins that; so the first one
// has to, too.
TEST(MadeLines, AtAStartWhatWaitsForItsTopicFollowsIntoItsPartition)
{
    constexpr int kLate = 900; // sessions
    constexpr int kFirst = 901;
    int seen = 0;
    for (std::uint64_t lanes = 0; lanes < 10; lanes++)
    {
        Made made;
        made.history().types = 2;
        made.history().max_events = 4;
        made.history().lanes = lanes;
        made.history().backoff_initial_ms = made.history().backoff_max_ms = 2000;
        made.act(0.1, Kind::lead, 0, 0, 0).act(0.1, Kind::lead, 0, 1, 1);
        made.act(0.1, Kind::topic_forbidden, 1, 1).one(0.5, 0, 0).one(0.6, 0, 1);
        made.act(1.0, Kind::lead, 0, 1, -1).one(1.2, 0, 0).one(1.6, 0, 0);
        made.act(4.4, Kind::begin, kFirst).act(4.4, Kind::emit, kFirst, 0, 1);
        made.act(4.5, Kind::begin, kLate).act(4.5, Kind::emit, kLate, 0, 0);
        made.act(4.6, Kind::emit, kLate, 0, 0).one(5.0, 1, 0).one(5.02, 0, 0);
        made.act(5.05, Kind::topic_forbidden, 0).act(5.1, Kind::commit, kFirst, 1);
        made.act(5.3, Kind::commit, kLate, 1).act(5.45, Kind::flush_log).act(5.5, Kind::crash);
        made.act(6.0, Kind::lead, 0, 1, 2).act(6.0, Kind::topic_fine, 0);
        made.act(6.0, Kind::broker_slow, 0, 300).act(10.0, Kind::topic_fine, 1).in_order();
        EXPECT_EQ(made.outcome(), "") << lanes;
        seen += made.outcome(Mutant::leaves_topics_others).substr(0, 5) == "order" ? 1 : 0;
    }
    EXPECT_GT(seen, 0);
}

// A line goes out in several batches at once, as no sink of the product does: of those that are
// refused the last one has a single event. That may not be the culprit, and is not before the
// others have gone out.
TEST(MadeLines, TheLastOfARefusedLineIsNotBlamed)
{
    Made made;
    made.history().types = 1;
    made.history().max_attempts = 1;
    made.history().max_in_flight = 4;
    made.history().batch_records = 10;
    made.lead(0, 0);
    made.emit(0.5, 0, 7).one(1.0, 0, 0, Act::unreadable);
    for (int i = 0; i < 21; i++)
        made.one(1.1 + 0.1 * i, 0, 0, i == 15 || i == 20 ? Act::invalid : Act::fine);
    made.act(4.0, Kind::discard, 0);
    EXPECT_EQ(made.outcome(), "");
    EXPECT_EQ(made.outcome(Mutant::blames_the_last).substr(0, 7), "stalled");
}

// Many keys of a topic that is forbidden have lines of their own. Only the topic's is tried: each
// refusal by a broker ends the producer, and what has been tried waits for its own next time when
// the topic is back. That breaks no promise, so what is counted is the work.
TEST(MadeLines, ATopicThatIsForbiddenIsTriedOnce)
{
    Made made;
    made.history().types = 1;
    made.history().max_attempts = 1;
    made.lead(0, 0);
    for (int key = 10; key < 50; key++)
        made.one(0.5, 0, key, Act::unreadable).one(1.0, 0, key).act(4.0, Kind::discard, 0);
    made.act(2.0, Kind::topic_forbidden, 0).one(2.1, 0, 1).act(20.0, Kind::topic_fine, 0);
    made.in_order();
    EXPECT_EQ(made.outcome(), "");
    EXPECT_EQ(made.outcome(Mutant::passes_wider), "");
    EXPECT_GT(made.rounds(Mutant::passes_wider), 3 * made.rounds());
}

// Kafka forbids two topics, the disk is slow, and one of them is allowed again before all that it
// has refused is set aside.
TEST(MadeLines, NothingPassesWhatIsNotSetAsideYet)
{
    Made made;
    made.history().types = 2;
    made.history().max_events = 1000;
    made.lead(0, 0);
    made.lead(1, 1);
    made.emit(0.5, 0, 7).emit(0.5, 1, 7).act(0.9, Kind::slow_disk, 4000);
    for (int topic = 0; topic < 2; topic++)
    {
        made.act(0.9, Kind::broker_slow, topic, 300).act(2.0, Kind::topic_forbidden, topic, 1);
        made.lead(topic, -1, 1.1);
    }
    made.one(0.95, 1, 0).emit(1.0, 0, 300).one(1.05, 1, 0);
    made.act(2.4, Kind::topic_fine, 1).act(2.4, Kind::lead, 1, 0, 2).act(2.4, Kind::lead, 1, 1, 2);
    for (int i = 0; i < 20; i++)
        made.one(2.5 + i * 0.1, 1, 0);
    made.act(20.0, Kind::lead, 0, 0, 2).act(20.0, Kind::lead, 0, 1, 2);
    made.act(20.0, Kind::slow_disk, 0).act(20.0, Kind::topic_fine, 0).in_order();
    EXPECT_EQ(made.outcome(), "");
    EXPECT_EQ(made.outcome(Mutant::passes_refused).substr(0, 5), "order");
}

// A start: an event is read again and held, as nothing is known of its topic. During a pause a
// change of routes brings a row into the line of its key, and then a later one is read that joins
// that line, as the row is behind it. So the first one has to go there, too.
TEST(MadeLines, WhatIsHeldDuringAStartJoinsTheRowsBehindIt)
{
    constexpr int kLate = 900; // a session
    int seen = 0;
    for (int i = 0; i < 20; i++)
    {
        Made made;
        made.history().seed += static_cast<std::uint64_t>(i);
        made.history().types = 2;
        made.act(0.1, Kind::topic_forbidden, 0, 1).act(0.1, Kind::topic_forbidden, 1, 1);
        made.one(0.2, 0, 1).one(3.0, 1, 0).act(3.1, Kind::begin, kLate);
        made.act(3.1, Kind::emit, kLate, 1, 0).one(3.2, 0, 0).act(3.3, Kind::restart);
        made.act(3.69, Kind::pause).act(3.7, Kind::route, 0, 1).act(5.0, Kind::resume);
        made.act(3.8, Kind::commit, kLate, 1).act(10.0, Kind::topic_fine, 1).in_order();
        EXPECT_EQ(made.outcome(), "") << i;
        seen += made.outcome(Mutant::hands_over_past_rows).substr(0, 5) == "order" ? 1 : 0;
    }
    EXPECT_GT(seen, 0);
}

// A person holds the row of an event that waits for its topic, and of which no record can be made.
// Nobody waits for it, as later events of its key flow, so its line is tried again, but not at
// once.
TEST(MadeLines, WhatAPersonHoldsIsNotTriedAtOnce)
{
    Made made;
    made.history().types = 1;
    made.history().max_attempts = 1;
    made.act(0.1, Kind::blocking, 0, 0).emit(0.5, 0, 7).act(1.0, Kind::topic_forbidden, 0);
    made.one(1.1, 0, 0).one(1.5, 0, 1, Act::unreadable).act(2.0, Kind::hold, 1);
    made.act(2.5, Kind::topic_fine, 0).act(8.0, Kind::release);
    EXPECT_EQ(made.outcome(), "");
    EXPECT_EQ(made.outcome(Mutant::tries_held_at_once).substr(0, 5), "spins");
}

} // namespace

} // namespace outbox::sim
