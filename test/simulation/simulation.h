// One history, from its first act to the time when all must be well.
#pragma once

#include "acts.h"
#include "world/cluster.h"

#include <string>
#include <vector>

namespace outbox::sim
{

struct Outcome
{
    std::string kind; // empty: nothing was wrong; else one of Checker's words
    std::string text;
    std::uint64_t hash = 0; // of all that happened, and when
    Time lasted = 0;
    std::size_t rounds = 0;
    std::size_t built = 0; // records, some more than once
    std::size_t published = 0;
    std::size_t repeats = 0;
    std::size_t refusals = 0;       // of single records
    std::size_t missed = 0;         // by subscriptions that were detached
    std::vector<std::string> lines; // if it was to be told in words

    bool good() const noexcept { return kind.empty(); }
};

// Runs the history. Two runs of the same one have the same outcome.
Outcome simulate(const History &history, bool in_words = false);

// Leaves out acts as long as it fails in the same way.
History shorten(const History &history, const std::string &kind);

// The acts, and what came of them, for a person.
std::string tell(const History &history);

} // namespace outbox::sim
