// What the project wants to reach, and whether it does.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace outbox::bench
{

struct Results;

struct Reach
{
    std::string what;
    double figure;
    double limit;
    bool at_least; // else: at most

    bool met() const { return at_least ? figure >= limit : figure <= limit; }
};

// Those that the results tell something about.
std::vector<Reach> reaches(const Results &results);

} // namespace outbox::bench
