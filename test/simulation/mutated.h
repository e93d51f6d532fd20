// A history with a fault of the engine.
#pragma once

#include "simulation.h"

#include "bgworker/engine/mutant.h"

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

} // namespace outbox::sim
