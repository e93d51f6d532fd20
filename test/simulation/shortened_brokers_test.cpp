// Shortened histories in which a broker that hangs held up what went to others.
#include "shortened.h"

namespace outbox::sim
{

// What is stuck is set aside in slices, each of which goes on where the last one ended.
TEST(ShortenedBrokers, WhatIsStuckIsSetAsideInSlicesThatContinueEachOther)
{
    const Shortened shortened = {106420,
                                 {1, 11, 143, 1048576, 5, true, 257, 1695, 2, 11000000},
                                 {
                                     {1657144, Kind::broker_slow, 2, 457},
                                     {1992394, Kind::lose_answers, 1, 2},
                                     {2665521, Kind::begin, 5},
                                     {2666151, Kind::emit, 5, 0, 2, 0, 21},
                                     {2666160, Kind::commit, 5, 1},
                                     {3330094, Kind::begin, 11},
                                     {3330243, Kind::emit, 11, 1, 0, 0, 152},
                                     {3330484, Kind::emit, 11, 0, 0, 0, 153},
                                     {3330777, Kind::emit, 11, 0, 1, 0, 80},
                                     {3333000, Kind::commit, 11, 1},
                                     {3386862, Kind::broker_hangs, 1},
                                     {4625604, Kind::begin, 10},
                                     {4625609, Kind::emit, 10, 0, 0, 0, 194},
                                     {4625627, Kind::emit, 10, 1, 1, 0, 164},
                                     {4746990, Kind::begin, 12},
                                     {4961745, Kind::commit, 10, 1},
                                     {5111152, Kind::emit, 12, 1, 2, 0, 115},
                                     {5127150, Kind::emit, 12, 0, 0, 0, 194},
                                     {5133587, Kind::lead, 1, 0, 2},
                                     {5642860, Kind::broker_up, 1},
                                     {5837206, Kind::lead, 0, 0, 2},
                                     {5929546, Kind::commit, 12, 1},
                                     {6634614, Kind::slow_machine, 2916},
                                     {6768823, Kind::begin},
                                     {6769979, Kind::emit, 0, 1, 2, 0, 183},
                                     {6774567, Kind::emit, 0, 0, 2, 0, 55},
                                     {6776367, Kind::emit, 0, 1, 0, 0, 130},
                                     {6776721, Kind::commit, 0, 1},
                                     {7377476, Kind::broker_down, 2},
                                     {7900359, Kind::lead, 0, 1, 1},
                                     {10742583, Kind::begin, 2},
                                     {10756577, Kind::emit, 2, 0, 2, 0, 160},
                                     {11101784, Kind::commit, 2, 1},
                                     {15366030, Kind::broker_up, 1},
                                 }};
    expect_well(shortened);
    expect_seen(Mutant::begins_slices_again, "stalled", shortened);
}

// A topic was missing, what was queued for it given up, and so the producer begins to count anew:
// not before a broker has answered that hangs. The others wait for seconds, not for a minute.
TEST(ShortenedBrokers, AProducerThatWaitsForAHangingBrokerIsReplaced)
{
    const Shortened shortened = {72020828,
                                 {1, 7, 101, 1048576, 5, true, 131, 673, 3, 40000000},
                                 {
                                     {2530612, Kind::begin, 11},
                                     {3424126, Kind::begin, 14},
                                     {3424217, Kind::emit, 14, 1, 2, 0, 151},
                                     {3424351, Kind::commit, 14, 1},
                                     {3575980, Kind::topic_missing, 1},
                                     {3578240, Kind::begin, 31},
                                     {3579111, Kind::emit, 31, 1, 2, 0, 195},
                                     {3580694, Kind::commit, 31, 1},
                                     {3924844, Kind::begin, 30},
                                     {4966502, Kind::broker_hangs, 1},
                                     {8080869, Kind::topic_fine, 1},
                                     {8082883, Kind::emit, 11, 1, 2, 0, 129},
                                     {8212254, Kind::emit, 11, 0, 3, 0, 94},
                                     {10665702, Kind::commit, 11, 1},
                                     {11001568, Kind::emit, 30, 1, 0, 0, 24},
                                     {12288881, Kind::commit, 30, 1},
                                 }};
    expect_well(shortened);
    expect_seen(Mutant::keeps_what_holds_up, "stalled", shortened);
}

// An event that has no room in the producer beside what is afloat there waits for seconds, too.
TEST(ShortenedBrokers, AnEventWithoutRoomBesideWhatIsAfloatGoesOut)
{
    const Shortened shortened = {73010938,
                                 {1, 10, 6, 1036, 2, true, 411, 1440, 3, 11000000},
                                 {
                                     {841670, Kind::begin, 1},
                                     {841912, Kind::emit, 1, 2, 2, 0, 52},
                                     {842015, Kind::emit, 1, 1, 4, 0, 144},
                                     {842238, Kind::commit, 1},
                                     {3671041, Kind::lead, 1, 0, -1},
                                     {3897686, Kind::begin, 14},
                                     {3897907, Kind::emit, 14, 1, 3, 0, 155},
                                     {3897931, Kind::emit, 14, 0, 0, 0, 113},
                                     {3898279, Kind::emit, 14, 0, 0, 0, 198},
                                     {3898574, Kind::emit, 14, 2, 3, 0, 127},
                                     {3898912, Kind::commit, 14},
                                     {4999657, Kind::begin, 10},
                                     {4999671, Kind::emit, 10, 2, 2, 0, 2843},
                                     {4999676, Kind::commit, 10},
                                     {14024893, Kind::commit, 22},
                                 }};
    expect_well(shortened);
    expect_seen(Mutant::keeps_what_holds_up, "stalled", shortened);
}

// A second counts from when an event was sent, not from when it was held.
TEST(ShortenedBrokers, ASecondCountsFromWhenAnEventWasSent)
{
    const Shortened shortened = {73011548,
                                 {1, 16, 192, 1048576, 1, true, 238, 722, 2, 10000000},
                                 {
                                     {0, Kind::topic_limit, 1, 672},
                                     {62990, Kind::short_replicas, 0, 1},
                                     {6645157, Kind::begin, 18},
                                     {6645188, Kind::emit, 18, 0, 0, 0, 75},
                                     {6645585, Kind::emit, 18, 1, 0, 0, 46},
                                     {6645850, Kind::emit, 18, 1, 0, 0, 150},
                                     {6646464, Kind::emit, 18, 1, 0, 0, 35},
                                     {6647204, Kind::emit, 18, 1, 0, 0, 143},
                                     {6647451, Kind::emit, 18, 1, 0, 0, 145},
                                     {6650744, Kind::commit, 19},
                                     {6650755, Kind::commit, 20},
                                     {6650943, Kind::emit, 18, 1, 0, 0, 42},
                                     {6651082, Kind::emit, 18, 1, 0, 0, 140},
                                     {6651333, Kind::commit, 18},
                                     {7063037, Kind::commit, 16},
                                     {7916905, Kind::commit, 3, 1},
                                 }};
    expect_well(shortened);
    expect_seen(Mutant::counts_while_held, "stalled", shortened);
}

// A broker hangs while another one refuses a batch: it is waited for once, not again by the next
// producer of the stream and by that of redelivery.
TEST(ShortenedBrokers, AHangingBrokerIsWaitedForOnce)
{
    const Shortened shortened = {73002144,
                                 {1, 14, 105, 1048576, 3, false, 81, 481, 4, 12000000},
                                 {
                                     {6484250, Kind::broker_hangs},
                                     {10328129, Kind::begin, 19},
                                     {10328524, Kind::emit, 19, 0, 1, 0, 176},
                                     {10328835, Kind::emit, 19, 2, 0, 1, 46},
                                     {10329381, Kind::emit, 19, 2, 2, 0, 151},
                                     {10337257, Kind::commit, 19, 1},
                                     {13768837, Kind::emit, 7, 3, 0, 0, 69},
                                 }};
    expect_well(shortened);
    expect_seen(Mutant::waits_twice, "stalled", shortened);
}

// The same, by one producer after the other.
TEST(ShortenedBrokers, AHangingBrokerIsWaitedForOnceByAllProducers)
{
    const Shortened shortened = {73017155,
                                 {1, 6, 107, 1048576, 3, true, 163, 1165, 4, 6000000},
                                 {
                                     {4792799, Kind::begin, 27},
                                     {4960717, Kind::emit, 27, 3, 1, 1, 60},
                                     {5411335, Kind::broker_hangs, 1},
                                     {7753296, Kind::emit, 27, 3, 3, 0, 191},
                                     {7806130, Kind::emit, 27, 1, 3, 0, 95},
                                     {7920105, Kind::emit, 27, 0, 3, 0, 102},
                                     {8066843, Kind::commit, 27, 1},
                                     {14293050, Kind::emit, 12, 2, 3, 0, 126},
                                 }};
    expect_well(shortened);
    expect_seen(Mutant::waits_twice, "stalled", shortened);
}

// What a producer's end was put off for is not waited for as long again, when the routes are loaded
// just then and all is handed over once more.
TEST(ShortenedBrokers, WhatWasWaitedForIsNotWhenRoutesAreLoaded)
{
    const Shortened shortened = {300065582,
                                 {1, 16, 190, 1048576, 2, true, 381, 1005, 3, 12000000},
                                 {
                                     {3524311, Kind::broker_hangs, 1},
                                     {4346050, Kind::lead, 1, 1, 1},
                                     {6538915, Kind::begin, 2},
                                     {6539683, Kind::emit, 2, 1, 0, 0, 147},
                                     {6539795, Kind::emit, 2, 2, 2, 0, 46},
                                     {6541105, Kind::emit, 2, 2, 4, 1, 114},
                                     {6543329, Kind::commit, 2, 1},
                                     {7529157, Kind::blocking, 0, 1},
                                     {10750917, Kind::broker_up, 0},
                                 }};
    expect_well(shortened);
    expect_seen(Mutant::waits_after_routes, "stalled", shortened);
}

// One that was repaired is queued behind others that are refused, each of which ends redelivery's
// producer, while a broker hangs.
TEST(ShortenedBrokers, WhatWasRepairedDoesNotWaitBehindWhatIsRefused)
{
    const Shortened shortened = {80063657,
                                 {1, 11, 196, 1048576, 5, true, 139, 498, 4, 15000000},
                                 {
                                     {3724247, Kind::begin, 22},
                                     {7969807, Kind::emit, 22, 2, 2, 1, 51},
                                     {8286329, Kind::commit, 22, 1},
                                     {10577074, Kind::broker_hangs, 2},
                                     {11933434, Kind::begin, 42},
                                     {11936716, Kind::emit, 42, 1, 0, 1, 90},
                                     {11940142, Kind::emit, 42, 3, 1, 2, 89},
                                     {11940744, Kind::emit, 42, 1, 1, 1, 89},
                                     {11946417, Kind::commit, 42, 1},
                                     {13084635, Kind::retry},
                                     {13088283, Kind::repair},
                                     {27463377, Kind::emit, 11, 3, 1, 0, 90},
                                 }};
    expect_well(shortened);
    expect_seen(Mutant::tries_culprits_along, "stalled", shortened);
}

// A broker hangs, and another event of the partition was set aside just now.
TEST(ShortenedBrokers, SettingAnEventAsideIsNoAnswerOfItsPartition)
{
    const Shortened shortened = {80160176,
                                 {1, 5, 102, 1048576, 5, true, 181, 1034, 3, 14000000},
                                 {
                                     {8805445, Kind::begin, 11},
                                     {13089828, Kind::broker_hangs, 2},
                                     {13604162, Kind::emit, 11, 1, 1, 0, 181},
                                     {13688589, Kind::begin, 24},
                                     {13689193, Kind::emit, 24, 1, 3, 0, 98},
                                     {13690217, Kind::commit, 24, 1},
                                     {13753534, Kind::commit, 11, 1},
                                     {13884730, Kind::begin, 25},
                                     {13884940, Kind::emit, 25, 2, 2, 0, 171},
                                     {13888728, Kind::emit, 25, 2, 0, 1, 182},
                                     {13889062, Kind::emit, 25, 1, 1, 2, 41},
                                     {13895422, Kind::commit, 25, 1},
                                     {25816423, Kind::emit, 12, 1, 0, 0, 148},
                                 }};
    expect_well(shortened);
    expect_seen(Mutant::takes_row_for_answer, "stalled", shortened);
}

} // namespace outbox::sim
