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

// What is at the head of a topic's line goes to a partition that does not answer what is tried
// alone of another line: what is behind it, and goes to the other partition, does not wait for
// that.
TEST(ShortenedStalls, ATopicsLineDoesNotWaitForWhatIsTriedAlone)
{
    const Shortened shortened = {1795619572599,
                                 {1, 1, 19, 1048576, 5, true, 87, 98, 1, 9000000},
                                 {
                                     {882543, Kind::topic_forbidden},
                                     {1244489, Kind::begin, 510},
                                     {1244533, Kind::emit, 510, 0, 0, 0, 159},
                                     {1244630, Kind::emit, 510, 0, 0, 0, 149},
                                     {1244650, Kind::commit, 510, 1},
                                     {1701062, Kind::begin, 18},
                                     {1701309, Kind::emit, 18, 0, 0, 0, 109},
                                     {1701425, Kind::emit, 18, 0, 0, 0, 30},
                                     {1701457, Kind::emit, 18, 0, 0, 0, 185},
                                     {1701458, Kind::commit, 18, 1},
                                     {1758466, Kind::topic_missing},
                                     {1817173, Kind::begin, 12},
                                     {1817272, Kind::emit, 12, 0, 0, 0, 46},
                                     {1817409, Kind::commit, 12, 1},
                                     {1917225, Kind::begin, 8},
                                     {1917286, Kind::emit, 8, 0, 0, 0, 162},
                                     {1917553, Kind::emit, 8, 0, 0, 0, 133},
                                     {1917568, Kind::emit, 8, 0, 0, 0, 135},
                                     {1920785, Kind::begin, 21},
                                     {1921208, Kind::emit, 21, 0, 0, 0, 200},
                                     {1921211, Kind::emit, 21, 0, 0, 0, 72},
                                     {1921364, Kind::begin, 501},
                                     {1921442, Kind::emit, 21, 0, 0, 0, 175},
                                     {1921586, Kind::commit, 21, 1},
                                     {1921725, Kind::emit, 501, 0, 0, 0, 57},
                                     {1922065, Kind::emit, 501, 0, 0, 1, 91},
                                     {1922405, Kind::emit, 501, 0, 0, 0, 19},
                                     {1922604, Kind::emit, 501, 0, 0, 0, 103},
                                     {1923037, Kind::commit, 501, 1},
                                     {1957061, Kind::commit, 8, 1},
                                     {2032538, Kind::begin, 17},
                                     {2032546, Kind::emit, 17, 0, 0, 0, 40},
                                     {2032553, Kind::emit, 17, 0, 0, 0, 68},
                                     {2032564, Kind::emit, 17, 0, 0, 0, 176},
                                     {2032596, Kind::emit, 17, 0, 0, 0, 110},
                                     {2032625, Kind::commit, 17, 1},
                                     {2211455, Kind::begin},
                                     {2211842, Kind::emit, 0, 0, 0, 0, 41},
                                     {2211858, Kind::emit, 0, 0, 0, 0, 86},
                                     {2211974, Kind::emit, 0, 0, 0, 0, 146},
                                     {2212235, Kind::emit, 0, 0, 0, 0, 82},
                                     {2212886, Kind::commit, 0, 1},
                                     {2353673, Kind::begin, 515},
                                     {2353674, Kind::emit, 515, 0, 0, 0, 10},
                                     {2353694, Kind::emit, 515, 0, 0, 0, 155},
                                     {2353770, Kind::emit, 515, 0, 0, 1, 159},
                                     {2353842, Kind::commit, 515, 1},
                                     {2586605, Kind::begin, 16},
                                     {2586805, Kind::emit, 16, 0, 0, 0, 183},
                                     {2587183, Kind::emit, 16, 0, 0, 0, 99},
                                     {2588091, Kind::emit, 16, 0, 0, 0, 31},
                                     {2588362, Kind::emit, 16, 0, 0, 0, 137},
                                     {2588527, Kind::emit, 16, 0, 0, 0, 67},
                                     {2588878, Kind::commit, 16, 1},
                                     {3633467, Kind::topic_fine},
                                     {3699549, Kind::begin, 609},
                                     {3699549, Kind::emit, 609, 0, 2, 0, 155},
                                     {3699549, Kind::emit, 609, 0, 3, 0, 175},
                                     {3701397, Kind::commit, 609, 1},
                                     {3781890, Kind::lead, 0, 0, -1},
                                     {3939122, Kind::begin, 612},
                                     {3939122, Kind::emit, 612, 0, 2, 0, 10},
                                     {3940583, Kind::commit, 612, 1},
                                     {4071431, Kind::lead, 0, 1, -1},
                                     {4413825, Kind::lead, 0, 0, 2},
                                     {6088317, Kind::begin, 607},
                                     {6088317, Kind::emit, 607, 0, 1, 0, 58},
                                     {6108322, Kind::commit, 607, 1},
                                     {17570014, Kind::emit, 509, 0, 0, 0, 52},
                                 }};
    expect_well(shortened);
    expect_seen(Mutant::head_waits_for_partition, "stalled", shortened);
}

} // namespace outbox::sim
