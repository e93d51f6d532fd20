// Histories with several subscriptions over one log; and the faults that there may be in what they
// have in common, each of which must be seen.
#include "made.h"
#include "world/database.h"

#include <gtest/gtest.h>

namespace outbox::sim
{

namespace
{

constexpr unsigned kAllTypes = ~0U >> 1;

Made
two_readers(unsigned types = kAllTypes)
{
    Made made;
    made.history().active = 15 * kSecond;
    made.subscription(0.1, types);
    return made;
}

TEST(Subscriptions, TheRingWaitsForTheSlowest)
{
    Made made = two_readers();
    made.of(1.0, Kind::pause).emit(2.0, 0, 5).act(3.0, Kind::rotate).of(8.0, Kind::resume);
    EXPECT_EQ(made.outcome(), "");
    EXPECT_EQ(simulate(made.history()).published, 10U);
    EXPECT_EQ(made.outcome(Mutant::empties_for_the_first).substr(0, 4), "lost");
}

// However late it is read.
TEST(Subscriptions, EachEventHasTheTypesOfItsCommit)
{
    Made made = two_readers(1 << 0);
    made.of(1.0, Kind::pause).one(2.0, 0, 0).one(2.1, 1, 0);
    made.of(3.0, Kind::alter, 1 << 1).of(3.2, Kind::end_change, 1);
    made.one(3.9, 0, 0).one(4.0, 1, 0).of(5.0, Kind::resume).in_order();
    EXPECT_EQ(made.outcome(), "");
    EXPECT_EQ(simulate(made.history()).published, 4U + 2U);
    EXPECT_NE(made.outcome(Mutant::filters_by_now), "");
}

TEST(Subscriptions, NowBeginsWithTransactionsThatAreOpen)
{
    for (const bool commits_before : {false, true})
    {
        Made made;
        made.act(1.0, Kind::begin, 77).act(1.1, Kind::emit, 77, 0, 0).one(1.2, 0, 1);
        made.act(commits_before ? 1.9 : 2.2, Kind::commit, 77, 1);
        made.subscription(2.0, kAllTypes).in_order();
        EXPECT_EQ(made.outcome(), "");
        EXPECT_EQ(simulate(made.history()).published, commits_before ? 2U : 3U);
        EXPECT_EQ(made.outcome(Mutant::begins_behind_open).empty(), commits_before);
    }
}

// Five are removed while it is detached, two more are left out when it begins anew.
TEST(Subscriptions, WhatADetachedOneMissesIsCounted)
{
    Made made = two_readers();
    made.history().others.front().max_lag = kSecond;
    made.one(0.5, 0, 0).of(1.0, Kind::pause).emit(2.0, 0, 5).act(3.0, Kind::rotate);
    made.emit(8.0, 0, 2).of(9.0, Kind::attach, 0).one(9.1, 0, 0).of(9.2, Kind::end_change, 1);
    made.of(9.5, Kind::resume).in_order();
    const Outcome outcome = simulate(made.history());
    EXPECT_EQ(outcome.text, "");
    EXPECT_EQ(outcome.missed, 5U + 2U);
    EXPECT_EQ(outcome.published, 9U + 2U);
}

// Its row is there, and a crash comes before the position is written: it is missed once.
TEST(Subscriptions, WhatWasSetAsideBehindThePositionIsMissedOnce)
{
    Made made = two_readers();
    made.history().others.front().max_lag = kSecond;
    made.history().others.front().max_attempts = 100;
    made.act(0.2, Kind::topic_strict, 0, 0); // `default` has it published
    made.act(1.9, Kind::lock, static_cast<int>(Table::position), 800).one(2.0, 0, 0, Act::invalid);
    made.of(2.3, Kind::pause).act(2.4, Kind::crash).act(4.0, Kind::rotate);
    made.of(9.0, Kind::resume);
    const Outcome outcome = simulate(made.history());
    EXPECT_EQ(outcome.text, "");
    EXPECT_EQ(outcome.missed, 1U);
    EXPECT_EQ(made.outcome(Mutant::counts_set_aside_too).substr(0, 6), "missed");
}

TEST(Subscriptions, OneThatWasDroppedHoldsNothing)
{
    Made made = two_readers();
    made.of(1.0, Kind::pause).emit(2.0, 0, 5).act(3.0, Kind::rotate);
    made.of(4.0, Kind::drop).of(4.1, Kind::end_change, 1);
    const Outcome outcome = simulate(made.history(), true);
    EXPECT_EQ(outcome.text, "");
    EXPECT_EQ(std::count_if(outcome.lines.begin(), outcome.lines.end(),
                            [](const std::string &line)
                            { return line.find("slot 0 is emptied") != std::string::npos; }),
              1);
}

// What a subscription does not take is passed once, and its position is not written again for that.
TEST(Subscriptions, ThePositionIsWrittenOnceForWhatIsLeftOut)
{
    Made made;
    made.history().types = 2;
    made.history().active = 30 * kSecond;
    made.subscription(0.5, 1).emit(2.0, 1);
    const auto writes = [&](Mutant mutated)
    {
        const Outcome outcome = simulate_with(mutated, made.history(), true);
        EXPECT_EQ(outcome.text, "");
        return std::count_if(
            outcome.lines.begin(), outcome.lines.end(),
            [](const std::string &line)
            { return line.find("subscription 1: the position") != std::string::npos; });
    };
    EXPECT_LE(writes(Mutant::none), 3);
    EXPECT_GT(writes(Mutant::writes_left_out_again), 10);
}

class SubscriptionMutants : public testing::TestWithParam<Mutant>
{
};

TEST_P(SubscriptionMutants, AreSeen)
{
    expect_seen(GetParam(), [](const History &history) { return !history.others.empty(); });
}

INSTANTIATE_TEST_SUITE_P(All, SubscriptionMutants,
                         testing::Values(Mutant::empties_for_the_first, Mutant::filters_by_now,
                                         Mutant::begins_with_another, Mutant::begins_behind_open,
                                         Mutant::alters_while_it_runs, Mutant::miscounts_missed,
                                         Mutant::counts_by_last_types, Mutant::counts_set_aside_too,
                                         Mutant::serves_detached, Mutant::pauses_with_default,
                                         Mutant::clears_others, Mutant::reads_other_position,
                                         Mutant::empties_under_replays, Mutant::replays_less,
                                         Mutant::blames_last_of_replay,
                                         Mutant::replays_past_returned, Mutant::forgets_left_out));

} // namespace

} // namespace outbox::sim
