// Shortened histories in which events went out in a wrong order, or again.
#include "shortened.h"

namespace outbox::sim
{

// A refused event that nothing waits for draws none past one that has FAILED.
TEST(ShortenedOrder, WhatBlocksNothingDrawsNothingPastAFailedEvent)
{
    const Shortened shortened = {15148,
                                 {1, 11, 95, 1048576, 4, true, 145, 787, 2, 4000000},
                                 {
                                     {1809231, Kind::begin, 28},
                                     {1810236, Kind::emit, 28, 1, 1, 1, 86},
                                     {1811400, Kind::emit, 28, 1, 1, 0, 195},
                                     {1811462, Kind::begin, 30},
                                     {1811513, Kind::emit, 30, 0, 1, 1, 78},
                                     {1813422, Kind::commit, 28, 1},
                                     {1974507, Kind::blocking},
                                     {2759201, Kind::commit, 30},
                                     {2838710, Kind::route, 1},
                                 }};
    expect_well(shortened);
    expect_seen(Mutant::draws_past_failed, "order", shortened);
}

// A row that a person holds while routes change moves later, and its line waits for it.
TEST(ShortenedOrder, ARowThatAPersonHoldsWhileRoutesChangeMovesLater)
{
    const Shortened shortened = {12000269,
                                 {1, 9, 50, 1048576, 1, true, 181, 886, 3, 5000000},
                                 {
                                     {222476, Kind::begin, 13},
                                     {223391, Kind::emit, 13, 1, 1, 1, 147},
                                     {224338, Kind::commit, 13},
                                     {463577, Kind::begin, 9},
                                     {988876, Kind::hold, 10},
                                     {1908423, Kind::emit, 9, 1, 1, 0, 94},
                                     {2150182, Kind::route, 1, 2},
                                 }};
    expect_well(shortened);
    expect_seen(Mutant::forgets_left, "order", shortened);
}

// What is refused with its topic goes behind what waits for its partition.
TEST(ShortenedOrder, WhatIsRefusedWithItsTopicGoesBehindItsPartition)
{
    const Shortened shortened = {60001679,
                                 {1, 2, 109, 11482, 4, true, 56, 166, 1, 8000000},
                                 {
                                     {0, Kind::topic_missing},
                                     {621001, Kind::begin, 505},
                                     {621014, Kind::emit, 505, 0, 0, 0, 105},
                                     {621032, Kind::commit, 505, 1},
                                     {2498674, Kind::begin, 502},
                                     {2854684, Kind::emit, 502, 0, 2, 1, 115},
                                     {3483674, Kind::begin, 507},
                                     {4196025, Kind::commit, 502},
                                     {4362104, Kind::topic_fine},
                                     {5053062, Kind::topic_missing},
                                     {5063373, Kind::begin, 506},
                                     {5063432, Kind::emit, 506, 0, 0, 0, 91},
                                     {5063985, Kind::emit, 506, 0, 2, 0, 59},
                                     {5064258, Kind::commit, 506},
                                     {5176658, Kind::lead, 0, 1, -1},
                                     {6199228, Kind::emit, 507, 0, 2, 0, 1706},
                                     {7011412, Kind::topic_fine},
                                 }};
    expect_well(shortened);
    expect_seen(Mutant::places_without_partition, "order", shortened);
}

// What comes back from a producer that has died keeps its partition.
TEST(ShortenedOrder, WhatComesBackFromADeadProducerKeepsItsPartition)
{
    const Shortened shortened = {60100935,
                                 {1, 14, 10, 7241, 4, true, 28, 85, 1, 7000000},
                                 {
                                     {1199888, Kind::begin, 507},
                                     {1200008, Kind::emit, 507, 0, 1, 0, 132},
                                     {1200351, Kind::commit, 507, 1},
                                     {1342336, Kind::begin, 1},
                                     {1819441, Kind::emit, 1, 0, 1, 0, 110},
                                     {2071801, Kind::lead, 0, 1, -1},
                                     {2235821, Kind::begin, 510},
                                     {2235943, Kind::emit, 510, 0, 2, 0, 125},
                                     {2236505, Kind::emit, 510, 0, 1, 0, 91},
                                     {2236739, Kind::commit, 510, 1},
                                     {2360978, Kind::begin, 501},
                                     {2361298, Kind::emit, 501, 0, 2, 0, 67},
                                     {2361308, Kind::commit, 501, 1},
                                     {2946877, Kind::topic_missing},
                                     {2954227, Kind::route},
                                 }};
    expect_well(shortened);
    expect_seen(Mutant::forgets_partition, "order", shortened);
}

// What is read again after a crash joins the line of its key before what is behind it.
TEST(ShortenedOrder, WhatIsReadAgainJoinsItsLineBeforeWhatIsBehindIt)
{
    const Shortened shortened = {60108223,
                                 {1, 7, 94, 1048576, 1, true, 27, 237, 1, 2000000},
                                 {
                                     {203867, Kind::pause},
                                     {223436, Kind::lose_answers, 1, 3},
                                     {272444, Kind::policy, 4, 1},
                                     {530432, Kind::lead, 0, 1, -1},
                                     {554189, Kind::resume},
                                     {557005, Kind::kill, 15},
                                     {652960, Kind::commit, 3, 1},
                                     {727620, Kind::begin, 1},
                                     {727746, Kind::emit, 1, 0, 1, 0, 2685},
                                     {730348, Kind::emit, 1, 0, 1, 0, 139},
                                     {730416, Kind::commit, 1},
                                     {776999, Kind::begin, 502},
                                     {777897, Kind::emit, 502, 0, 2, 0, 30},
                                     {778788, Kind::emit, 502, 0, 1, 0, 1519},
                                     {778822, Kind::emit, 502, 0, 2, 0, 622},
                                     {779000, Kind::emit, 502, 0, 0, 0, 18},
                                     {779051, Kind::emit, 502, 0, 0, 2, 103},
                                     {779814, Kind::emit, 502, 0, 1, 0, 98},
                                     {780209, Kind::emit, 502, 0, 2, 1, 23},
                                     {795638, Kind::commit, 502, 1},
                                     {881457, Kind::kill, 46},
                                     {1008097, Kind::lead, 0, 1, 1},
                                     {1570545, Kind::begin, 4},
                                     {1570697, Kind::emit, 4, 0, 2, 0, 21},
                                     {1571071, Kind::emit, 4, 0, 2, 0, 146},
                                     {1571347, Kind::emit, 4, 0, 1, 0, 184},
                                     {1571620, Kind::emit, 4, 0, 0, 0, 99},
                                     {1572093, Kind::commit, 4, 1},
                                     {1841987, Kind::topic_missing},
                                     {1898959, Kind::commit, 504, 1},
                                     {1918785, Kind::lead, 0, 1, -1},
                                     {7044157, Kind::topic_fine},
                                     {8155117, Kind::savepoint, 7},
                                 }};
    expect_well(shortened);
    expect_seen(Mutant::forgets_rows_behind, "order", shortened);
}

// After a start the stream may hand over what has a row already.
TEST(ShortenedOrder, RedeliveryBeginsWhenTheStreamHasReadWhatComesFirst)
{
    const Shortened shortened = {2038,
                                 {1, 2, 2, 1048576, 4, true, 200, 1578, 3, 7000000},
                                 {
                                     {1571932, Kind::short_replicas, 2, 1},
                                     {2274792, Kind::commit, 13, 1},
                                     {2330045, Kind::begin, 14},
                                     {2330300, Kind::emit, 14, 2, 2, 0, 1708},
                                     {2330736, Kind::commit, 14, 1},
                                     {4127705, Kind::begin, 9},
                                     {4127737, Kind::emit, 9, 0, 4, 0, 664},
                                     {4127754, Kind::commit, 9, 1},
                                     {4347406, Kind::standby, 1},
                                     {4365087, Kind::crash},
                                     {4384668, Kind::short_replicas, 2, 1, 2},
                                 }};
    expect_well(shortened);
    expect_seen(Mutant::redelivers_at_once, "repeated", shortened);
}

// What comes back from the stream joins the line that was there before it.
TEST(ShortenedOrder, WhatComesBackFromTheStreamJoinsTheLineBeforeIt)
{
    const Shortened shortened = {5255,
                                 {1, 17, 42, 1048576, 2, true, 75, 290, 1, 7000000},
                                 {
                                     {1027277, Kind::broker_slow, 2, 870},
                                     {1325899, Kind::begin, 510},
                                     {1326204, Kind::emit, 510, 0, 1, 0, 139},
                                     {1326238, Kind::commit, 510, 1},
                                     {1743722, Kind::begin, 4},
                                     {1743850, Kind::emit, 4, 0, 1, 1, 156},
                                     {1743948, Kind::emit, 4, 0, 0, 0, 191},
                                     {1744007, Kind::commit, 4, 1},
                                     {2247899, Kind::begin, 508},
                                     {2250312, Kind::emit, 508, 0, 1, 2, 197},
                                     {2254959, Kind::commit, 508, 1},
                                     {2549275, Kind::repair},
                                 }};
    expect_well(shortened);
    expect_seen(Mutant::places_by_width, "order", shortened);
}

// What waits for its topic follows into the line that its key gets when the relay starts and loads
// the routes.
TEST(ShortenedOrder, WhatWaitsForItsTopicFollowsWhenRoutesAreLoaded)
{
    const Shortened shortened = {8251,
                                 {1, 20, 105, 1048576, 5, true, 310, 1079, 2, 2000000},
                                 {
                                     {0, Kind::topic_forbidden},
                                     {119550, Kind::begin, 13},
                                     {119777, Kind::emit, 13, 0, 0, 0, 23},
                                     {120305, Kind::commit, 13, 1},
                                     {149957, Kind::crash},
                                     {401310, Kind::begin, 34},
                                     {401312, Kind::emit, 34, 0, 1, 0, 32},
                                     {401312, Kind::emit, 34, 1, 0, 0, 104},
                                     {401312, Kind::emit, 34, 1, 1, 0, 22},
                                     {401312, Kind::commit, 34, 1},
                                     {458621, Kind::commit, 17, 1},
                                     {477919, Kind::slow_disk, 1849},
                                     {706520, Kind::kill, 28},
                                     {739777, Kind::begin, 4},
                                     {739884, Kind::emit, 4, 1, 1, 0, 12},
                                     {739995, Kind::emit, 4, 0, 1, 0, 191},
                                     {740106, Kind::commit, 4, 1},
                                     {840345, Kind::begin, 11},
                                     {840723, Kind::emit, 11, 0, 0, 0, 162},
                                     {842118, Kind::emit, 11, 1, 0, 0, 118},
                                     {842939, Kind::emit, 11, 0, 1, 0, 129},
                                     {843315, Kind::emit, 11, 0, 1, 0, 161},
                                     {843421, Kind::emit, 11, 0, 0, 0, 189},
                                     {843421, Kind::emit, 11, 1, 1, 0, 166},
                                     {843680, Kind::emit, 11, 0, 1, 0, 25},
                                     {844216, Kind::emit, 11, 0, 0, 0, 100},
                                     {844754, Kind::emit, 11, 0, 1, 0, 17},
                                     {845137, Kind::emit, 11, 0, 1, 0, 191},
                                     {845474, Kind::commit, 11, 1},
                                     {872527, Kind::begin, 28},
                                     {872560, Kind::emit, 28, 1, 1, 0, 50},
                                     {872593, Kind::commit, 28, 1},
                                     {1078286, Kind::begin, 22},
                                     {1078360, Kind::emit, 22, 0, 1, 0, 13},
                                     {1078993, Kind::emit, 22, 0, 1, 0, 50},
                                     {1080014, Kind::commit, 22, 1},
                                     {1789195, Kind::restart},
                                 }};
    expect_well(shortened);
    expect_seen(Mutant::leaves_others, "order", shortened);
}

// A later event of the key had found its partition without a leader while an earlier one was on its
// way. After a start the topic is gone, so the earlier one's partition is not known.
TEST(ShortenedOrder, RowsKeepTheirPartitionWhenTheirTopicIsGone)
{
    const Shortened shortened = {80182039,
                                 {1, 14, 34, 1048576, 5, true, 26, 116, 2, 7000000},
                                 {
                                     {0, Kind::topic_forbidden, 0, 1},
                                     {52979, Kind::begin, 509},
                                     {53308, Kind::emit, 509, 0, 0, 0, 108},
                                     {53967, Kind::emit, 509, 1, 0, 0, 190},
                                     {54446, Kind::commit, 509, 1},
                                     {319694, Kind::lead, 1, 0, -1},
                                     {488763, Kind::begin, 33},
                                     {489260, Kind::emit, 33, 1, 1, 0, 82},
                                     {489314, Kind::commit, 33, 1},
                                     {971957, Kind::begin, 34},
                                     {972866, Kind::emit, 34, 1, 1, 0, 41},
                                     {972985, Kind::commit, 34, 1},
                                     {1075721, Kind::topic_missing, 1},
                                     {1755009, Kind::restart},
                                 }};
    expect_well(shortened);
    expect_seen(Mutant::forgets_partitions_of_rows, "order", shortened);
}

// What has parted from its topic's line is before the same events of the stream as before: those go
// behind what is refused with its topic in between, and has no partition. It takes so much to come
// to that, that the history stands here as chance has made it.
TEST(ShortenedOrder, WhatHasPartedFromALineIsBeforeTheSame)
{
    const History history = make_history(950010687);
    EXPECT_EQ(simulate(history).text, "");
    EXPECT_EQ(simulate_with(Mutant::parts_anew, history).kind, "order");
}

// A row that was refused in the line of its topic, before its key got a line of its own, is not
// put back there when it has followed into that: the refusal is written first.
TEST(ShortenedOrder, WhatIsUnderWayInAWiderLineFollowsWhenThatIsKnown)
{
    const History history = make_history(970164670);
    EXPECT_EQ(simulate(history).text, "");
    EXPECT_EQ(simulate_with(Mutant::gathers_under_way, history).kind, "order");
}

} // namespace outbox::sim
