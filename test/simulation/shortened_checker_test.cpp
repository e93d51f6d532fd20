// Shortened histories in which the engine was right: the checker's own faults, which have no
// mutant.
#include "shortened.h"

namespace outbox::sim
{

// An event that a crash has had forgotten after it was published, and that is refused now, holds up
// its key.
TEST(ShortenedChecker, WhatWasForgottenAfterItWasPublishedHoldsUpItsKey)
{
    const Shortened shortened = {51002248,
                                 {1, 18, 9, 1048576, 5, true, 430, 1513, 4, 13000000},
                                 {
                                     {0, Kind::topic_missing, 1},
                                     {1822675, Kind::begin, 26},
                                     {2282219, Kind::begin, 1},
                                     {2282648, Kind::emit, 1, 1, 2, 0, 2737},
                                     {2283502, Kind::commit, 1, 1},
                                     {2665982, Kind::emit, 26, 3, 1, 0, 102},
                                     {2714158, Kind::topic_fine, 1},
                                     {2745664, Kind::commit, 12, 1},
                                     {3553102, Kind::kill, 6},
                                     {4778993, Kind::topic_limit, 1, 933},
                                     {11511689, Kind::begin, 5},
                                     {11512280, Kind::emit, 5, 1, 2, 0, 59},
                                     {11514167, Kind::commit, 5},
                                     {36460810, Kind::commit, 6},
                                 }};
    expect_well(shortened);
}

// An event was too large for its topic, which takes it now: it is tried again in its time.
TEST(ShortenedChecker, WhatIsNotTooLargeAnyMoreIsTriedInItsTime)
{
    const Shortened shortened = {92022966,
                                 {1, 10, 133, 1048576, 5, true, 311, 1417, 2, 10000000},
                                 {
                                     {8588637, Kind::topic_limit, 0, 616},
                                     {9178271, Kind::begin, 2},
                                     {9178405, Kind::emit, 2, 0, 2, 0, 1242},
                                     {9178427, Kind::commit, 2},
                                     {11852610, Kind::topic_limit, 0, 1921},
                                 }};
    expect_well(shortened);
}

// An event cannot be read, others need not wait for it, and what says so cannot be written: they
// are on their way when a person repairs it.
TEST(ShortenedChecker, WhatOthersNeedNotWaitForHasNoPlaceBeforeItIsWritten)
{
    const Shortened shortened = {300146877,
                                 {1, 17, 92, 1048576, 2, true, 159, 317, 1, 12000000},
                                 {
                                     {2346425, Kind::blocking, 0, 0},
                                     {2498823, Kind::begin, 0},
                                     {2498964, Kind::emit, 0, 0, 3, 0, 178},
                                     {2551944, Kind::no_space, 4},
                                     {3222835, Kind::commit, 0, 1},
                                     {5142372, Kind::lock, 0, 2617},
                                     {6091817, Kind::begin, 16},
                                     {6091928, Kind::emit, 16, 0, 3, 2, 104},
                                     {6092751, Kind::emit, 16, 0, 3, 0, 91},
                                     {6093356, Kind::commit, 16, 1},
                                     {6638930, Kind::route, 0, 0},
                                     {7367139, Kind::begin, 25},
                                     {7367145, Kind::emit, 25, 0, 2, 2, 184},
                                     {7368211, Kind::commit, 25, 1},
                                     {7418585, Kind::lock, 0, 2848},
                                     {10653073, Kind::repair},
                                 }};
    expect_well(shortened);
}

// What a person holds while routes change, and would be refused, is not tried at once.
TEST(ShortenedChecker, WhatAPersonHeldWhileRoutesChangedIsNotTriedAtOnce)
{
    const Shortened shortened = {70003583,
                                 {1, 19, 23, 1048576, 4, true, 18, 214, 2, 2000000},
                                 {
                                     {0, Kind::topic_forbidden},
                                     {59913, Kind::begin, 504},
                                     {60031, Kind::emit, 504, 0, 1, 0, 16},
                                     {60184, Kind::commit, 504, 1},
                                     {68289, Kind::begin, 505},
                                     {69333, Kind::emit, 505, 0, 0, 0, 72},
                                     {70016, Kind::commit, 505, 1},
                                     {247912, Kind::topic_forbidden, 1, 1},
                                     {297101, Kind::begin, 15},
                                     {297685, Kind::emit, 15, 0, 1, 0, 46},
                                     {298611, Kind::commit, 15, 1},
                                     {371505, Kind::hold, 17},
                                     {490986, Kind::route, 0, 1},
                                     {22654886, Kind::commit, 2},
                                 }};
    expect_well(shortened);
}

// A late copy may arrive of an event whose partition of the table was emptied.
TEST(ShortenedChecker, ALateCopyOfAnEventWhosePartitionWasEmptied)
{
    const Shortened shortened = {70022003,
                                 {1, 18, 12, 1048576, 1, true, 316, 696, 4, 5000000},
                                 {
                                     {1362865, Kind::broker_hangs},
                                     {1429755, Kind::begin, 9},
                                     {1430315, Kind::emit, 9, 1, 2, 0, 27},
                                     {1431026, Kind::emit, 9, 1, 3, 0, 104},
                                     {1431538, Kind::emit, 9, 2, 0, 0, 26},
                                     {1431953, Kind::commit, 9, 1},
                                     {2894347, Kind::commit, 15, 1},
                                     {3280252, Kind::commit, 8, 1},
                                     {3285461, Kind::lead, 2, 1, 1},
                                     {3418307, Kind::rotate},
                                     {3531539, Kind::route, 1},
                                     {4606603, Kind::empty_slot},
                                     {5750315, Kind::lead, 2, 1},
                                 }};
    expect_well(shortened);
}

// A line waits for all that the stream had sent before, to a slow broker as well.
TEST(ShortenedChecker, ALineWaitsForWhatWentToASlowBroker)
{
    const Shortened shortened = {70015868,
                                 {1, 13, 115, 1048576, 2, true, 140, 1280, 3, 14000000},
                                 {
                                     {0, Kind::topic_limit, 2, 454},
                                     {5689523, Kind::begin, 25},
                                     {6278662, Kind::broker_slow, 0, 857},
                                     {6561092, Kind::emit, 25, 1, 0, 0, 97},
                                     {8319853, Kind::commit, 25, 1},
                                     {8453232, Kind::begin, 13},
                                     {8454558, Kind::emit, 13, 1, 0, 0, 73},
                                     {8454908, Kind::commit, 13, 1},
                                     {9298727, Kind::begin, 34},
                                     {9298739, Kind::emit, 34, 2, 1, 0, 175},
                                     {9299086, Kind::emit, 34, 1, 1, 0, 112},
                                     {9299449, Kind::emit, 34, 1, 0, 0, 53},
                                     {9299685, Kind::emit, 34, 2, 1, 0, 93},
                                     {9299894, Kind::emit, 34, 2, 0, 0, 74},
                                     {9301754, Kind::emit, 34, 2, 1, 0, 180},
                                     {9301866, Kind::emit, 34, 2, 0, 0, 161},
                                     {9303575, Kind::emit, 34, 1, 1, 0, 38},
                                     {9303813, Kind::emit, 34, 1, 0, 0, 170},
                                     {9304261, Kind::emit, 34, 1, 1, 0, 75},
                                     {9304444, Kind::emit, 34, 2, 0, 0, 198},
                                     {9304732, Kind::emit, 34, 2, 1, 0, 64},
                                     {9304864, Kind::emit, 34, 1, 1, 0, 80},
                                     {9305964, Kind::emit, 34, 2, 0, 0, 31},
                                     {9306602, Kind::emit, 34, 1, 0, 0, 21},
                                     {9306727, Kind::emit, 34, 1, 0, 0, 89},
                                     {9307018, Kind::commit, 34, 1},
                                 }};
    expect_well(shortened);
}

// A broker that is slow leads the partition no more, and is asked all the same by who does not
// know.
TEST(ShortenedChecker, ASlowBrokerThatLeadsNoMoreIsStillAsked)
{
    const Shortened shortened = {95057747,
                                 {1, 14, 145, 1048576, 1, true, 310, 1223, 1, 15000000},
                                 {
                                     {20975, Kind::begin, 14},
                                     {21668, Kind::emit, 14, 0, 1, 1, 129},
                                     {21782, Kind::commit, 14, 1},
                                     {22269, Kind::begin, 15},
                                     {24475, Kind::emit, 15, 0, 3, 0, 176},
                                     {24881, Kind::commit, 15, 1},
                                     {176168, Kind::lead, 0, 1},
                                     {2200388, Kind::begin, 2},
                                     {2200749, Kind::emit, 2, 0, 0, 0, 1123},
                                     {2200885, Kind::commit, 2, 1},
                                     {3711010, Kind::lead, 0, 1, 1},
                                     {8768477, Kind::broker_slow, 0, 1414},
                                     {9175308, Kind::begin, 4},
                                     {9178240, Kind::emit, 4, 0, 0, 0, 119},
                                     {9178686, Kind::emit, 4, 0, 2, 1, 2759},
                                     {9179183, Kind::commit, 4, 1},
                                 }};
    expect_well(shortened);
}

} // namespace outbox::sim
