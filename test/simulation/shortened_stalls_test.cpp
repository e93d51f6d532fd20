// Shortened histories in which a row or a topic held up others.
#include "shortened.h"

namespace outbox::sim
{

// A lane is not blocked for good by a row that a person holds.
TEST(ShortenedStalls, ARowThatAPersonHoldsBlocksNoLaneForGood)
{
    const Shortened shortened = {12003223,
                                 {1, 20, 75, 1048576, 3, true, 35, 86, 1, 6000000},
                                 {
                                     {0, Kind::topic_missing},
                                     {144087, Kind::begin, 505},
                                     {144251, Kind::emit, 505, 0, 1, 0, 67},
                                     {144741, Kind::emit, 505, 0, 1, 0, 70},
                                     {144883, Kind::emit, 505, 0, 1, 1, 134},
                                     {145458, Kind::emit, 505, 0, 0, 2, 181},
                                     {145854, Kind::commit, 505, 1},
                                     {179966, Kind::begin, 1},
                                     {180055, Kind::emit, 1, 0, 1, 0, 35},
                                     {180092, Kind::commit, 1, 1},
                                     {3135143, Kind::lead, 0, 1, -1},
                                     {3485954, Kind::topic_forbidden},
                                     {3797867, Kind::repair},
                                     {5214729, Kind::hold, 14},
                                     {5303702, Kind::topic_fine},
                                     {5849658, Kind::discard, 3},
                                     {5892820, Kind::lead, 0, 0, -1},
                                     {7719754, Kind::emit, 27, 0, 0, 0, 17},
                                 }};
    expect_well(shortened);
    expect_seen(Mutant::blocks_for_held, "stuck", shortened);
}

// A row that a person holds is not tried again and again.
TEST(ShortenedStalls, ARowThatAPersonHoldsIsNotTriedAgainAndAgain)
{
    const Shortened shortened = {60007263,
                                 {1, 7, 111, 1048576, 2, true, 97, 123, 2, 12000000},
                                 {
                                     {0, Kind::topic_forbidden, 0, 1},
                                     {0, Kind::topic_forbidden, 1},
                                     {941104, Kind::begin, 510},
                                     {941162, Kind::emit, 510, 1, 1, 1, 119},
                                     {941495, Kind::commit, 510},
                                     {1278472, Kind::begin, 513},
                                     {1278480, Kind::emit, 513, 0, 1, 0, 16},
                                     {1278500, Kind::commit, 513},
                                     {2079192, Kind::commit, 509, 1},
                                     {2111006, Kind::pause},
                                     {2599983, Kind::commit, 514},
                                     {2638981, Kind::begin},
                                     {2639577, Kind::emit, 0, 0, 0, 0, 34},
                                     {2640448, Kind::emit, 0, 1, 0, 0, 128},
                                     {2640460, Kind::commit},
                                     {2789590, Kind::topic_fine},
                                     {4085843, Kind::topic_forbidden, 0, 1},
                                     {4107836, Kind::resume},
                                     {5547945, Kind::topic_fine, 1},
                                     {6249978, Kind::hold, 1},
                                 }};
    expect_well(shortened);
    expect_seen(Mutant::tries_held_at_once, "spins", shortened);
}

// Only what a producer has is afloat in it, and not what is to be handed over again.
TEST(ShortenedStalls, OnlyWhatAProducerHasIsAfloatInIt)
{
    const Shortened shortened = {740465,
                                 {1, 5, 103, 1048576, 3, true, 58, 808, 3, 3000000},
                                 {
                                     {421507, Kind::lock, 0, 733},
                                     {569235, Kind::begin, 4},
                                     {569318, Kind::emit, 4, 1, 2, 0, 136},
                                     {569342, Kind::emit, 4, 2, 2, 0, 126},
                                     {569483, Kind::commit, 4},
                                     {574758, Kind::begin, 6},
                                     {574927, Kind::emit, 6, 0, 0, 2, 142},
                                     {575404, Kind::emit, 6, 1, 0, 1, 635},
                                     {576057, Kind::begin, 7},
                                     {576066, Kind::emit, 6, 2, 2, 0, 2967},
                                     {576440, Kind::emit, 7, 2, 2, 0, 58},
                                     {576504, Kind::commit, 7},
                                     {577000, Kind::commit, 6},
                                     {578450, Kind::begin, 9},
                                     {579094, Kind::emit, 9, 2, 0, 1, 117},
                                     {579777, Kind::emit, 9, 2, 0, 0, 185},
                                     {579952, Kind::begin, 10},
                                     {580033, Kind::commit, 9},
                                     {580062, Kind::emit, 10, 2, 3, 0, 144},
                                     {580328, Kind::commit, 10},
                                     {644055, Kind::topic_missing, 1},
                                     {759813, Kind::no_space, 8},
                                     {1338109, Kind::repair},
                                     {1463853, Kind::begin, 2},
                                     {1464204, Kind::emit, 2, 2, 0, 0, 517},
                                     {1465375, Kind::emit, 2, 1, 3, 0, 63},
                                     {1465499, Kind::emit, 2, 2, 3, 0, 97},
                                     {1466080, Kind::commit, 2, 1},
                                     {1510204, Kind::broker_down},
                                     {1909142, Kind::begin},
                                     {1909271, Kind::emit, 0, 0, 1, 0, 2365},
                                     {1910087, Kind::commit, 0, 1},
                                     {2242794, Kind::repair},
                                     {2671244, Kind::broker_hangs, 1},
                                     {3236350, Kind::topic_fine, 1},
                                     {3281420, Kind::broker_up, 1},
                                     {4382943, Kind::lead, 2, 0, 2},
                                 }};
    expect_well(shortened);
    expect_seen(Mutant::sinks_unqueued, "stuck", shortened);
}

// A topic is missing, and one record after the other that is refused ends its producer: that asks
// anew, and the line of the refused waits for what is held.
TEST(ShortenedStalls, ANewProducerKnowsThatATopicIsMissing)
{
    const Shortened shortened = {80030466,
                                 {1, 17, 187, 1048576, 1, true, 131, 1457, 3, 8000000},
                                 {
                                     {5428288, Kind::topic_missing, 1},
                                     {5559682, Kind::begin, 7},
                                     {5561784, Kind::emit, 7, 1, 0, 0, 54},
                                     {5562006, Kind::commit, 7, 1},
                                     {6449816, Kind::begin, 2},
                                     {6450052, Kind::emit, 2, 2, 1, 0, 194},
                                     {6450445, Kind::emit, 2, 2, 3, 1, 175},
                                     {6525013, Kind::commit, 2, 1},
                                     {7443486, Kind::begin, 18},
                                     {7444269, Kind::emit, 18, 2, 0, 1, 518},
                                     {7449657, Kind::commit, 18, 1},
                                     {13560723, Kind::rollback, 5},
                                 }};
    expect_well(shortened);
    expect_seen(Mutant::asks_anew, "stalled", shortened);
}

} // namespace outbox::sim
