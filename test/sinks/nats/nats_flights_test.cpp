#include "flights_desk.h"

#include <gtest/gtest.h>

namespace outbox::test
{

namespace
{

using nats::Reach;

TEST(NatsFlights, OneOfALaneIsUnderWayAndManyLanesAre)
{
    Desk desk;
    for (const std::uint64_t lane : {1, 1, 2, 3, 2})
        desk.add(lane);
    EXPECT_EQ(desk.send(0), (Tags{1, 3, 4}));
    desk.flights.stored(token_of(3));
    EXPECT_EQ(desk.send(0), Tags{5});
    EXPECT_EQ(desk.told(), "3+ ");
}

TEST(NatsFlights, ARefusalTakesWhatIsBehindItInItsLaneOnly)
{
    Desk desk;
    for (const std::uint64_t lane : {1, 1, 1, 2})
        desk.add(lane);
    (void) desk.send(0);
    desk.flights.refused(token_of(1), judgement(Reach::event), 0, 0);
    EXPECT_EQ(desk.told(), "1-e 2~ 3~ ");
    // Who adds has not heard of it yet.
    desk.add(1);
    EXPECT_EQ(desk.told(), "5~ ");
    EXPECT_EQ(desk.flights.reopen(1), 3U);
    desk.add(1);
    EXPECT_EQ(desk.send(0), Tags{6});
    desk.flights.stored(token_of(4));
    EXPECT_EQ(desk.told(), "4+ ");
}

TEST(NatsFlights, ASubjectThatRefusesKeepsNoOtherOneBack)
{
    nats::FlightRules rules;
    rules.patience_ms = 1000;
    Desk desk(rules);
    desk.add(1, "bad");
    desk.add(2, "bad");
    desk.add(3, "good");
    EXPECT_EQ(desk.send(0), (Tags{1, 2, 3}));
    desk.flights.refused(token_of(1), judgement(Reach::subject), 0, 0);
    desk.flights.refused(token_of(2), judgement(Reach::subject), 0, 0);
    desk.flights.stored(token_of(3));
    EXPECT_EQ(desk.told(), "3+ ");
    // One tries, and others of the subject wait.
    desk.add(4, "bad");
    desk.add(5, "good");
    EXPECT_EQ(desk.send(0), Tags{5});
    EXPECT_EQ(desk.send(200), Tags{1});
    EXPECT_EQ(desk.send(900), Tags{});
    // Patience is over.
    desk.flights.refused(token_of(1), judgement(Reach::subject), 1100, 0);
    EXPECT_EQ(desk.told(), "2-t 4-t 1-t ");
    // What comes then is not even sent.
    desk.add(6, "bad");
    desk.add(7, "good");
    EXPECT_EQ(desk.send(1101), Tags{7});
    EXPECT_EQ(desk.told(), "6-t ");
    // But for one now and then; and when that is stored the others flow.
    desk.add(8, "bad");
    EXPECT_EQ(desk.send(10000), Tags{8});
    desk.add(9, "bad");
    EXPECT_EQ(desk.send(10000), Tags{});
    desk.flights.stored(token_of(8));
    EXPECT_EQ(desk.send(10000), Tags{9});
}

TEST(NatsFlights, TroubleOfTheDestinationKeepsAllAndOneTries)
{
    Desk desk;
    for (const std::uint64_t lane : {1, 2, 3, 1})
        desk.add(lane);
    (void) desk.send(0);
    for (const std::uint64_t tag : {1, 2, 3})
        desk.flights.refused(token_of(tag), judgement(Reach::destination), 0, 0);
    EXPECT_EQ(desk.told(), "");
    EXPECT_TRUE(desk.flights.is_in_trouble());
    EXPECT_EQ(desk.send(100), Tags{});
    EXPECT_EQ(desk.flights.due(), desk.flights.retry_at());
    EXPECT_EQ(desk.send(500), Tags{1});
    desk.flights.refused(token_of(1), judgement(Reach::destination), 500, 0);
    EXPECT_EQ(desk.send(600), Tags{});
    EXPECT_EQ(desk.send(2000), Tags{2});
    desk.flights.stored(token_of(2));
    EXPECT_EQ(desk.send(2000), (Tags{3, 1}));
    EXPECT_FALSE(desk.flights.is_in_trouble());
}

TEST(NatsFlights, AConnectionThatEndsSendsAllAgain)
{
    Desk desk;
    for (const std::uint64_t lane : {1, 2, 1})
        desk.add(lane);
    (void) desk.send(0);
    desk.add(4);
    desk.flights.disconnected();
    EXPECT_EQ(desk.send(10), (Tags{1, 2, 4}));
    // An answer to the first sending counts.
    desk.flights.disconnected();
    desk.flights.stored(token_of(1));
    EXPECT_EQ(desk.send(10), (Tags{2, 4, 3}));
}

TEST(NatsFlights, SilenceIsTheConnectionsUnlessOthersAreAnswered)
{
    nats::FlightRules rules;
    rules.timeout_ms = 1000;
    rules.patience_ms = 0;
    Desk desk(rules);
    desk.add(1, "silent");
    desk.add(2, "good");
    (void) desk.send(0);
    EXPECT_TRUE(desk.flights.watch(999, 0));
    EXPECT_EQ(desk.flights.due(), 1000);
    EXPECT_FALSE(desk.flights.watch(1000, 0));
    desk.flights.note_heard(500);
    desk.flights.stored(token_of(2));
    EXPECT_TRUE(desk.flights.watch(1000, 0));
    EXPECT_EQ(desk.told(), "2+ 1-t ");
}

TEST(NatsFlights, WhoMayNotPublishIsToldOfHisSubjectOnly)
{
    nats::FlightRules rules;
    rules.patience_ms = 0;
    Desk desk(rules);
    desk.add(1, "a.long.subject");
    desk.add(2, "a.long");
    (void) desk.send(0);
    desk.flights.not_permitted("a.lo", false, 0, 0);
    EXPECT_EQ(desk.told(), "");
    desk.flights.not_permitted("a.long", false, 0, 0);
    EXPECT_EQ(desk.told(), "2-t ");
    desk.flights.not_permitted("a.long.sub", true, 0, 0);
    EXPECT_EQ(desk.told(), "1-t ");
}

TEST(NatsFlights, WhatEndsConnectionsIsFoundOneByOne)
{
    Desk desk;
    for (const std::uint64_t lane : {1, 2, 3})
        desk.add(lane);
    (void) desk.send(0);
    EXPECT_EQ(desk.flights.alone(), nullptr);
    desk.flights.isolate();
    desk.flights.disconnected();
    EXPECT_EQ(desk.send(0), Tags{1});
    desk.flights.stored(token_of(1));
    EXPECT_EQ(desk.send(0), Tags{2});
    ASSERT_NE(desk.flights.alone(), nullptr);
    desk.flights.refused(token_of(2), judgement(Reach::event), 0, 0);
    EXPECT_EQ(desk.send(0), Tags{3});
    desk.flights.stored(token_of(3));
    desk.add(4);
    desk.add(5);
    EXPECT_EQ(desk.send(0), (Tags{4, 5}));
}

} // namespace

} // namespace outbox::test
