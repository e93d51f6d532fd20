// Histories in which the destination refuses records one by one; and the faults that the engine may
// have there, each of which must be seen.
#include "made.h"

#include <gtest/gtest.h>

namespace outbox::sim
{

namespace
{

// A refused record is sent as often as it may be, is given up then, and others of its key wait.
Made
refused_thrice()
{
    Made made;
    made.history().endpoint = true;
    made.history().types = 1;
    made.history().max_attempts = 3;
    made.history().active = 20 * kSecond;
    made.one(1.0, 0, 0).one(1.001, 0, 0, Act::invalid);
    for (int i = 0; i < 20; i++)
        made.one(1.002 + i / 10000.0, 0, i % 3);
    return made;
}

TEST(Endpoint, ARefusalCountsOnce)
{
    // At the end an operator has it retried, when it is taken.
    const auto refusals = [](Mutant mutated)
    {
        const History history = refused_thrice().history();
        return simulate_with(mutated, history).refusals;
    };
    EXPECT_EQ(refusals(Mutant::none), 3U);
    EXPECT_LT(refusals(Mutant::refuses_twice), 3U);
}

// Nothing but the line of its key notices: what is new of others goes out in the meantime, and
// nothing is sent twice.
TEST(Endpoint, ARefusalStopsItsKeyOnly)
{
    const Outcome outcome = simulate(refused_thrice().history());
    EXPECT_EQ(outcome.text, "");
    EXPECT_EQ(outcome.repeats, 0U);
}

// So many are refused at once that to set them aside takes many steps: what was behind them waits
// for its own.
TEST(Endpoint, WhatWasBehindARefusedRecordGoesOutBehindIt)
{
    Made made;
    made.history().endpoint = true;
    made.history().types = 1;
    made.history().max_events = 400;
    made.history().batch_records = 20;
    made.act(0.9, Kind::slow_disk, 2000);
    for (int key = 0; key < 60; key++)
        for (int i = 0; i < 3; i++)
            made.one(1.0, 0, key, i == 0 ? Act::invalid : Act::fine);
    EXPECT_EQ(made.outcome(), "");
    EXPECT_EQ(made.outcome(Mutant::passes_refused).substr(0, 5), "order");
}

class EndpointMutants : public testing::TestWithParam<Mutant>
{
};

TEST_P(EndpointMutants, AreSeen)
{
    expect_seen(GetParam(), [](const History &history) { return history.endpoint; });
}

INSTANTIATE_TEST_SUITE_P(All, EndpointMutants,
                         testing::Values(Mutant::blocks_nothing, Mutant::loses_followers,
                                         Mutant::takes_followers_for_sent,
                                         Mutant::halts_for_refusal, Mutant::blames_followers,
                                         Mutant::position_before_ack,
                                         Mutant::takes_refused_for_sent, Mutant::lacks_barrier,
                                         Mutant::forgets_afloat, Mutant::clears_lane_early,
                                         Mutant::blames_for_gone, Mutant::calls_again,
                                         Mutant::calls_for_rows, Mutant::replays_to_gone));

} // namespace

} // namespace outbox::sim
