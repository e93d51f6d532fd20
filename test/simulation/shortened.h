// Histories of chance that have found a fault, shortened. Each must go well, and must not when the
// fault is put back.
#pragma once

#include "mutated.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace outbox::sim
{

using Kind = Act::Kind;

struct Shortened
{
    // See History.
    struct Settings
    {
        int max_in_flight;
        int batch_records;
        int max_events;
        int max_bytes;
        int max_attempts;
        bool block;
        std::int64_t backoff_initial_ms;
        std::int64_t backoff_max_ms;
        int types;
        Time active;
    };

    std::uint64_t seed;
    Settings settings;
    std::vector<Act> acts;
};

// Chance is in the world as well, and what the engine asks of the database moves it: so each is
// played with some seeds, and one of these has to show the fault.
constexpr int kVariations = 60;

inline History
variation_of(const Shortened &shortened, int variation)
{
    const Shortened::Settings &settings = shortened.settings;
    History history;
    history.seed = shortened.seed + static_cast<std::uint64_t>(variation);
    history.lanes = static_cast<std::uint64_t>(variation);
    history.max_in_flight = settings.max_in_flight;
    history.batch_records = settings.batch_records;
    history.max_events = settings.max_events;
    history.max_bytes = settings.max_bytes;
    history.max_attempts = settings.max_attempts;
    history.block = settings.block;
    history.backoff_initial_ms = settings.backoff_initial_ms;
    history.backoff_max_ms = settings.backoff_max_ms;
    history.types = settings.types;
    history.active = settings.active;
    history.acts = shortened.acts;
    for (Act &act : history.acts)
        if (act.kind == Kind::kill)
            act.a += variation; // statements
    return history;
}

inline void
expect_well(const Shortened &shortened)
{
    for (int i = 0; i < kVariations; i++)
        EXPECT_EQ(simulate(variation_of(shortened, i)).text, "") << "variation " << i;
}

// With this fault one of them goes wrong in this way.
inline void
expect_seen(Mutant fault, const std::string &kind, const Shortened &shortened)
{
    int shows = 0;
    while (shows < kVariations && simulate_with(fault, variation_of(shortened, shows)).kind != kind)
        shows++;
    EXPECT_LT(shows, kVariations) << "fault " << static_cast<int>(fault);
}

} // namespace outbox::sim
