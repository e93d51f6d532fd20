// Histories that were made for one promise, which those of chance hardly ever meet.
#include "made.h"

#include <gtest/gtest.h>

namespace outbox::sim
{

namespace
{

// When event 0 was refused, in seconds, up to the time when it has failed.
std::vector<double>
refusals_of_first(const Made &made, Mutant mutated)
{
    const Outcome outcome = simulate_with(mutated, made.history(), true);
    EXPECT_EQ(outcome.text, "");
    std::vector<double> at;
    for (const std::string &line : outcome.lines)
    {
        if (line.find("event 0 is set aside: refused") == std::string::npos)
            continue;
        at.push_back(std::stod(line));
        if (line.find("FAILED") != std::string::npos)
            break;
    }
    return at;
}

// All that is in flight waits for a partition without a leader when the brokers are back, and
// nothing new comes: what was set aside goes out all the same.
TEST(MadeHistories, TroubleEndsWithTheConnection)
{
    Made made;
    made.act(0.1, Kind::topic_forbidden, 0).emit(0.5, 0).emit(1.0, 1);
    made.brokers(3.0, Kind::broker_down).emit(3.0, 1);
    made.act(4.0, Kind::lead, 1, 0, -1).act(4.0, Kind::lead, 1, 1, -1);
    made.act(5.0, Kind::topic_fine, 0).brokers(6.0, Kind::broker_up);
    EXPECT_EQ(made.outcome(), "");
    EXPECT_EQ(made.outcome(Mutant::trouble_waits_for_delivery).substr(0, 5), "stuck");
}

// Brokers hang with three times as much as may be in flight: another one is not to notice. Long
// after the leaders were chosen, so that nobody takes one of these for that of another partition.
TEST(MadeHistories, WhatIsAfloatDoesNotFillTheQueue)
{
    Made made;
    made.history().max_events = 400;
    made.history().max_bytes = 20000;
    made.history().types = 4;
    made.history().active = 100 * kSecond;
    for (int topic = 0; topic < 4; topic++)
        made.lead(topic, topic % 3);
    for (int topic = 0; topic < 4; topic++)
        made.emit(0.5, topic, 7);
    made.act(42.0, Kind::broker_hangs, 0).emit(42.1, 0, 25, 1000).emit(43.2, 3, 25, 1000);
    made.act(44.5, Kind::broker_hangs, 1).emit(44.6, 1, 25, 1000);
    for (int i = 0; i < 240; i++)
        made.emit(42.0 + i * 0.1, 2);
    made.in_order();
    EXPECT_EQ(made.outcome(), "");
    EXPECT_NE(made.outcome(Mutant::afloat_has_no_size), "");
}

// The first that a producer sends to a partition is refused, and a later event of its key was made
// ready meanwhile: it would be taken, as the leader knows no number of that producer.
TEST(MadeHistories, WhatIsReadyBehindARefusedRequestDoesNotGoOut)
{
    int seen = 0;
    for (int tenths = 0; tenths < 200; tenths++)
    {
        Made made;
        made.history().types = 1;
        made.one(0.5, 0, 0, Act::invalid);
        for (int i = 0; i < 5; i++)
            made.one(0.5 + (tenths + i) / 10000.0, 0, 0);
        EXPECT_EQ(made.outcome(), "") << tenths;
        made.history().sends_ready = true;
        seen += made.outcome().substr(0, 5) == "order" ? 1 : 0;
    }
    EXPECT_GT(seen, 0);
}

// A relay that ends in order notes what was acknowledged in its last moments.
TEST(MadeHistories, ResultsOfTheLastMomentsAreNoted)
{
    int seen = 0;
    for (int ms = 0; ms < 1500; ms += 30)
    {
        Made made;
        made.act(0.1, Kind::topic_forbidden, 0).emit(0.5, 0, 30);
        made.brokers(3.0, Kind::broker_slow, 100);
        made.act(4.0, Kind::topic_fine, 0).act(4.0 + ms / 1000.0, Kind::restart);
        EXPECT_EQ(made.outcome(), "") << ms;
        seen += made.outcome(Mutant::forgets_last_results).empty() ? 0 : 1;
    }
    EXPECT_GT(seen, 0);
}

// A new producer knows no topic: an event is held for news of it, and when these have come, as the
// line of its key ends just then. Nothing is heard of the topic any more, and it goes out all the
// same.
TEST(MadeHistories, WhatIsHeldWaitsForWhatItWaitsForNow)
{
    Made made;
    made.history().max_attempts = 1;
    made.history().types = 2;
    made.one(1.0, 0, 0, Act::invalid).one(2.0, 0, 0);
    made.brokers(3.05, Kind::broker_slow, 300);
    made.act(3.1, Kind::discard, 0);
    for (int i = 0; i < 20; i++)
        made.one(3.15 + 0.1 * i, 0, 0);
    made.one(4.8, 1, 1, Act::invalid).one(5.3, 0, 0).in_order();
    EXPECT_EQ(made.outcome(), "");
}

// A broker hangs, and its partitions get events one after the other: what waits for all of them
// waits for a second, not for one each.
TEST(MadeHistories, PartitionsThatAreStuckAreFoundTogether)
{
    int seen = 0;
    for (int i = 0; i < 20; i++)
    {
        Made made;
        made.history().seed += static_cast<std::uint64_t>(i);
        made.history().types = 4;
        made.history().max_events = 200;
        for (int topic = 0; topic < 4; topic++)
            made.lead(topic, topic < 3 ? 0 : 1);
        for (int topic = 0; topic < 4; topic++)
            made.emit(0.5, topic, 7);
        made.act(42.0, Kind::broker_hangs, 0).one(42.1, 0, 0).one(42.115, 0, 1).one(42.12, 1, 0);
        made.one(42.121, 3, 0, Act::unreadable).act(42.122, Kind::repair);
        for (int event = 0; event < 60; event++)
            made.one(42.0 + event * 0.1, 3, 1);
        made.in_order();
        EXPECT_EQ(made.outcome(), "") << i;
        seen += made.outcome(Mutant::stuck_one_by_one).substr(0, 7) == "stalled" ? 1 : 0;
    }
    EXPECT_GT(seen, 0);
}

// Kafka forbids a topic with hundreds of events queued, while the disk is slow.
TEST(MadeHistories, ManyRefusalsAreSetAsideInSlices)
{
    Made made;
    made.history().types = 2;
    made.history().max_events = 1000;
    for (int partition = 0; partition < kPartitions; partition++)
        made.act(0.1, Kind::lead, 0, partition, 0).act(0.1, Kind::lead, 1, partition, 1);
    made.emit(0.5, 0).emit(0.5, 1).act(0.9, Kind::slow_disk, 4000);
    made.act(0.9, Kind::broker_slow, 0, 300).emit(1.0, 0, 900);
    made.act(1.1, Kind::lead, 0, 0, 2).act(1.1, Kind::lead, 0, 1, 2);
    made.act(1.45, Kind::topic_forbidden, 0, 1);
    made.act(20.0, Kind::slow_disk, 0).act(20.0, Kind::topic_fine, 0);
    EXPECT_EQ(made.outcome(), "");
    EXPECT_EQ(made.outcome(Mutant::refusals_at_once).substr(0, 7), "stalled");
}

// A topic that is refused is in the log once, however often its events are tried, and whatever
// joins them.
TEST(MadeHistories, ARefusedTopicIsToldOnce)
{
    Made made;
    made.history().types = 2;
    made.history().backoff_initial_ms = 100;
    made.history().backoff_max_ms = 200;
    made.act(0.1, Kind::topic_missing, 0).act(0.1, Kind::topic_missing, 1);
    for (int i = 0; i < 100; i++)
        made.one(1.5 + i * 0.1, i % 2, i % 7);
    const auto told = [&](Mutant mutated)
    {
        const Outcome outcome = simulate_with(mutated, made.history(), true);
        EXPECT_EQ(outcome.text, "");
        return std::count_if(outcome.lines.begin(), outcome.lines.end(),
                             [](const std::string &line)
                             { return line.find("Kafka takes no events") != std::string::npos; });
    };
    EXPECT_EQ(told(Mutant::none), 2);
    EXPECT_GT(told(Mutant::tells_again), 10);
}

// An event that is refused is tried again after pauses that grow, up to the longest one, and so
// often as it is to be.
TEST(MadeHistories, AttemptsAreFurtherAndFurtherApart)
{
    constexpr double kLongest[] = {0.2, 0.4, 0.8, 1.0, 1.0};
    constexpr double kTry = 0.1;
    for (int i = 0; i < 10; i++)
    {
        Made made;
        made.history().seed += static_cast<std::uint64_t>(i);
        made.history().endpoint = i >= 5;
        made.history().max_attempts = 6;
        made.history().backoff_initial_ms = 200;
        made.history().backoff_max_ms = 1000;
        made.one(1.0, 0, 0, Act::invalid);
        const auto goes_well = [&](Mutant mutated)
        {
            const std::vector<double> at = refusals_of_first(made, mutated);
            bool good = at.size() == std::size(kLongest) + 1;
            for (std::size_t n = 1; n < at.size() && good; n++)
                good = at[n] - at[n - 1] >= kLongest[n - 1] / 2 &&
                       at[n] - at[n - 1] <= kLongest[n - 1] + kTry;
            return good;
        };
        EXPECT_TRUE(goes_well(Mutant::none)) << i;
        EXPECT_FALSE(goes_well(Mutant::tries_at_once)) << i;
    }
}

// While the disk is full, what is to be written is tried again after pauses that grow, however much
// there is to do meanwhile.
TEST(MadeHistories, AFullDiskIsTriedAgainAfterPauses)
{
    Made made;
    made.emit(0.5, 0).act(2.0, Kind::no_space, 0, 8000);
    for (int i = 0; i < 200; i++)
        made.one(1.0 + i * 0.05, i % 3, i % 7);
    const auto tries = [&](Mutant mutated)
    {
        const Outcome outcome = simulate_with(mutated, made.in_order().history(), true);
        EXPECT_EQ(outcome.text, "");
        return std::count_if(outcome.lines.begin(), outcome.lines.end(),
                             [](const std::string &line)
                             { return line.find("no space left") != std::string::npos; });
    };
    EXPECT_GT(tries(Mutant::none), 0);
    EXPECT_LE(tries(Mutant::none), 5);
    EXPECT_GT(tries(Mutant::tries_each_round), 20);
}

// An endpoint takes long for the records of one key, and of others there are more than may be in
// flight: they do not wait for it.
TEST(MadeHistories, AKeyThatTakesLongHoldsUpNoOther)
{
    Made made;
    made.history().endpoint = true;
    made.history().slow_key = 0;
    made.history().max_events = 100;
    made.history().types = 1;
    made.one(10.0, 0, 0);
    constexpr int kOthers[] = {1, 2, 4, 5}; // by other connections
    for (int i = 0; i < 400; i++)
        made.one(10.0 + i * 0.01, 0, kOthers[i % 4]);
    EXPECT_EQ(made.outcome(), "");
    EXPECT_EQ(made.outcome(Mutant::takes_stuck_for_turn).substr(0, 7), "stalled");
}

// A sink has few records on their way, each of which takes a while: those that wait for their turn
// are not stuck.
TEST(MadeHistories, WhatWaitsForItsTurnIsNotStuck)
{
    Made made;
    made.history().endpoint = true;
    made.history().max_events = 200;
    made.history().batch_records = 4;
    made.act(0.5, Kind::broker_slow, 0, 500);
    for (int i = 60; i > 0; i--)
        made.one(1.0, (i + 2) % 3, i); // the sink begins with topic 0, and the first is of topic 2
    const auto set_aside = [&](Mutant mutated)
    {
        const Outcome outcome = simulate_with(mutated, made.history(), true);
        EXPECT_EQ(outcome.text, "");
        return std::count_if(outcome.lines.begin(), outcome.lines.end(),
                             [](const std::string &line)
                             { return line.find("is set aside") != std::string::npos; });
    };
    EXPECT_EQ(set_aside(Mutant::none), 0);
    EXPECT_GT(set_aside(Mutant::takes_turn_for_stuck), 0);
}

// The first events of a drain wait until their topic is described. The others do not have to be
// held behind them, and built twice, for as long as it lasts.
TEST(MadeHistories, ADrainHoldsOnlyWhatItBeginsWith)
{
    constexpr int kEvents = 5000;
    constexpr int kFirst = 1000;
    Made made;
    made.history().types = 1;
    made.history().max_events = kFirst;
    made.history().batch_records = 200;
    made.act(0.5, Kind::slow_machine, 100).emit(1.0, 0, kEvents);
    const auto built = [&](Mutant mutated)
    {
        const Outcome outcome = simulate_with(mutated, made.history());
        EXPECT_EQ(outcome.text, "");
        return outcome.built;
    };
    EXPECT_LE(built(Mutant::none), kEvents + 2 * kFirst);
    EXPECT_GT(built(Mutant::reads_past_held), 2 * kEvents - kFirst);
}

} // namespace

} // namespace outbox::sim
