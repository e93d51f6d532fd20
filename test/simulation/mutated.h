// A history with a fault of the engine.
#pragma once

#include "simulation.h"

#include "bgworker/engine/mutant.h"

#include <cstdio>
#include <functional>
#include <gtest/gtest.h>

namespace outbox::sim
{

// simulate() with this fault switched on.
inline Outcome
simulate_with(Mutant fault, const History &history, bool in_words = false)
{
    set_mutant(fault);
    Outcome outcome = simulate(history, in_words);
    set_mutant(Mutant::none);
    return outcome;
}

// Looks for a history that goes wrong with the fault and goes well without it, among those of the
// kind in the first ten thousand.
inline void
expect_seen(Mutant fault, const std::function<bool(const History &)> &of_the_kind)
{
    constexpr std::uint64_t kHistories = 10000;
    std::uint64_t seed = 1;
    Outcome outcome;
    for (; seed <= kHistories; seed++)
    {
        const History history = make_history(seed);
        if (!of_the_kind(history))
            continue;
        outcome = simulate_with(fault, history);
        if (outcome.good())
            continue;
        if (simulate(history).good())
            break;
        outcome = {}; // it is not the mutant
    }
    EXPECT_FALSE(outcome.good());
    std::printf("mutant %d: seen in history %llu: %s: %s\n", static_cast<int>(fault),
                static_cast<unsigned long long>(seed), outcome.kind.c_str(), outcome.text.c_str());
}

} // namespace outbox::sim
