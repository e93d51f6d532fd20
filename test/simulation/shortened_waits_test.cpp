// Two waits that follow each other are together no longer than one: a healthy partition does not
// stand still for them.
#include "shortened.h"

namespace outbox::sim
{

// A partition has too few replicas, and its record is handed over to the next producer, as an event
// of another one was refused.
TEST(ShortenedWaits, TheNextProducerIsNotGivenTheSameTimeAgain)
{
    const Shortened shortened = {500202542,
                                 {1, 19, 107, 1048576, 2, true, 115, 1028, 3, 12000000},
                                 {
                                     {8287101, Kind::lead, 2, 0, -1},
                                     {10384833, Kind::short_replicas, 0, 0, 1},
                                     {10568197, Kind::begin, 2},
                                     {10568622, Kind::emit, 2, 1, 2, 1, 143},
                                     {10568989, Kind::emit, 2, 2, 1, 0, 61},
                                     {10570756, Kind::begin, 4},
                                     {10570801, Kind::emit, 4, 1, 0, 0, 118},
                                     {10570953, Kind::emit, 2, 0, 1, 0, 180},
                                     {10571087, Kind::commit, 2, 1},
                                     {10571965, Kind::commit, 4},
                                     {11872105, Kind::begin, 11},
                                     {11877953, Kind::emit, 11, 1, 3, 1, 2744},
                                     {11881451, Kind::commit, 11, 1},
                                     {22622910, Kind::emit, 1, 2, 2, 0, 1463},
                                 }};
    expect_well(shortened);
    expect_seen(Mutant::waits_anew, "stalled", shortened);
}

// Another course of the same.
TEST(ShortenedWaits, ASecondRefusalDoesNotBeginTheWaitAnew)
{
    const Shortened shortened = {700022798,
                                 {1, 3, 114, 1048576, 1, true, 313, 1053, 4, 8000000},
                                 {
                                     {3113493, Kind::begin, 10},
                                     {4740119, Kind::short_replicas, 2, 1, 1},
                                     {4845844, Kind::begin, 15},
                                     {4847302, Kind::emit, 15, 3, 2, 1, 140},
                                     {5718672, Kind::emit, 10, 0, 2, 1, 155},
                                     {5933418, Kind::begin, 20},
                                     {5933568, Kind::emit, 20, 1, 0, 1, 85},
                                     {5933875, Kind::emit, 20, 1, 2, 0, 76},
                                     {5934391, Kind::emit, 20, 2, 2, 0, 159},
                                     {5934531, Kind::commit, 20, 1},
                                     {6880181, Kind::commit, 15, 1},
                                     {7478420, Kind::commit, 10, 1},
                                     {11980104, Kind::emit, 11, 2, 1, 0, 21},
                                 }};
    expect_well(shortened);
    expect_seen(Mutant::waits_anew, "stalled", shortened);
}

// A topic is gone, and then a partition of another topic's line has too few replicas.
TEST(ShortenedWaits, ATopicsLinePartsSoonFromAPartition)
{
    const Shortened shortened = {500031682,
                                 {1, 2, 190, 1048576, 4, true, 401, 987, 4, 11000000},
                                 {
                                     {0, Kind::topic_missing, 2},
                                     {230049, Kind::begin, 11},
                                     {230540, Kind::emit, 11, 2, 1, 0, 46},
                                     {230907, Kind::commit, 11, 1},
                                     {3848059, Kind::topic_fine, 2},
                                     {5672512, Kind::topic_missing, 1},
                                     {6364468, Kind::begin, 10},
                                     {6364672, Kind::emit, 10, 1, 1, 0, 67},
                                     {6364748, Kind::emit, 10, 2, 2, 0, 154},
                                     {6365031, Kind::emit, 10, 2, 1, 0, 124},
                                     {6365124, Kind::commit, 10, 1},
                                     {7102802, Kind::short_replicas, 2, 1, 1},
                                 }};
    expect_well(shortened);
    expect_seen(Mutant::parts_late, "stalled", shortened);
}

// A broker hangs; a change of routes gives up what redelivery has there, and then the stream sends
// to it.
TEST(ShortenedWaits, AHangingBrokerIsNotWaitedForAgainAfterALateChangeOfRoutes)
{
    const Shortened shortened = {500051709,
                                 {1, 7, 156, 1048576, 2, false, 468, 1538, 3, 14000000},
                                 {
                                     {740043, Kind::broker_hangs},
                                     {776581, Kind::begin, 20},
                                     {776638, Kind::emit, 20, 0, 0, 0, 52},
                                     {776694, Kind::emit, 20, 0, 2, 0, 169},
                                     {776773, Kind::emit, 20, 0, 0, 0, 153},
                                     {776844, Kind::commit, 20, 1},
                                     {1103152, Kind::begin, 9},
                                     {1103441, Kind::emit, 9, 0, 0, 0, 168},
                                     {1105197, Kind::commit, 9, 1},
                                     {6258067, Kind::begin, 21},
                                     {6258751, Kind::emit, 21, 1, 1, 0, 130},
                                     {6259524, Kind::emit, 21, 0, 1, 0, 91},
                                     {6260144, Kind::emit, 21, 1, 0, 0, 153},
                                     {6260508, Kind::commit, 21, 1},
                                     {8896720, Kind::broker_hangs, 1},
                                     {9126896, Kind::route, 1},
                                     {9151213, Kind::route, 1, 2},
                                     {9160398, Kind::begin, 26},
                                     {9160542, Kind::emit, 26, 1, 1, 0, 123},
                                     {9160697, Kind::commit, 26, 1},
                                 }};
    expect_well(shortened);
    History history = variation_of(shortened, 1);
    history.seed = shortened.seed; // others have other leaders
    history.rows_at_once = 5;
    EXPECT_EQ(simulate(history).text, "");
    EXPECT_EQ(simulate_with(Mutant::waits_after_late_routes, history).kind, "stalled");
}

// A broker hangs for as long as a producer's end may take, and then a topic is gone.
TEST(ShortenedWaits, ATopicThatIsGoneIsNotWaitedForBehindABrokerThatHung)
{
    const Shortened shortened = {300065582,
                                 {1, 16, 190, 1048576, 2, true, 381, 1005, 3, 8000000},
                                 {
                                     {3524311, Kind::broker_hangs, 1},
                                     {4346050, Kind::lead, 1, 1, 1},
                                     {6538915, Kind::begin, 2},
                                     {6539683, Kind::emit, 2, 1, 0, 0, 147},
                                     {6539795, Kind::emit, 2, 2, 2, 0, 46},
                                     {6541105, Kind::emit, 2, 2, 4, 1, 114},
                                     {6543329, Kind::commit, 2, 1},
                                     {7033154, Kind::topic_forbidden, 1, 1},
                                     {10750917, Kind::broker_up, 0},
                                 }};
    expect_well(shortened);
    expect_seen(Mutant::waits_for_topic_too, "stalled", shortened);
}

// Another course of the same.
TEST(ShortenedWaits, ATopicThatIsMissingIsNotWaitedForBehindABrokerThatHung)
{
    const Shortened shortened = {710060899,
                                 {1, 13, 181, 1048576, 1, true, 369, 1189, 3, 14000000},
                                 {
                                     {10894507, Kind::broker_hangs, 1},
                                     {11473392, Kind::begin, 0},
                                     {11475947, Kind::emit, 0, 2, 2, 0, 64},
                                     {11476280, Kind::emit, 0, 0, 2, 0, 146},
                                     {11476616, Kind::emit, 0, 0, 4, 1, 49},
                                     {11476622, Kind::emit, 0, 1, 0, 0, 118},
                                     {11476774, Kind::commit, 0, 1},
                                     {12075605, Kind::topic_missing, 1},
                                 }};
    expect_well(shortened);
    expect_seen(Mutant::waits_for_topic_too, "stalled", shortened);
}

// Two topics are there again, one after the other, but not known yet. That one is unknown for too
// long is no news of it.
TEST(ShortenedWaits, WhatIsHeldForATopicIsLookedAtWithoutNews)
{
    const Shortened shortened = {700002318,
                                 {1, 6, 114, 1048576, 5, true, 266, 1148, 2, 13000000},
                                 {
                                     {0, Kind::topic_missing, 1},
                                     {1128933, Kind::begin, 29},
                                     {1129375, Kind::emit, 29, 1, 1, 0, 134},
                                     {1129704, Kind::emit, 29, 0, 2, 0, 57},
                                     {1130193, Kind::commit, 29, 1},
                                     {4060044, Kind::topic_fine, 1},
                                     {4679508, Kind::topic_missing, 0},
                                     {5390032, Kind::begin, 1},
                                     {5390408, Kind::emit, 1, 0, 2, 0, 66},
                                     {5390806, Kind::emit, 1, 1, 2, 0, 166},
                                     {5391157, Kind::commit, 1, 1},
                                     {5864062, Kind::blocking, 0, 1},
                                 }};
    expect_well(shortened);
    expect_seen(Mutant::looks_with_news, "stalled", shortened);
}

} // namespace outbox::sim
