// What the project wants to reach, and whether it does.
#pragma once

#include <string>
#include <vector>

namespace outbox::bench
{

struct ApplicationResult;
struct DrainResult;
struct GrowthResult;
struct IdempotencyCostResult;
struct LatencyResult;
struct SteadyResult;
struct WriteCostResult;

struct Reach
{
    std::string what;
    double figure;
    double limit;
    bool at_least; // else: at most

    bool met() const { return at_least ? figure >= limit : figure <= limit; }
};

// Those that the result tells something about.
std::vector<Reach> reaches(const DrainResult &drain);
std::vector<Reach> reaches(const std::vector<LatencyResult> &latency);
std::vector<Reach> reaches(const WriteCostResult &write);
std::vector<Reach> reaches(const ApplicationResult &application);
std::vector<Reach> reaches(const SteadyResult &steady);
std::vector<Reach> reaches(const GrowthResult &growth);
std::vector<Reach> reaches(const IdempotencyCostResult &idempotency);

} // namespace outbox::bench
