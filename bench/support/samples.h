// Statistics of a handful of rounds, or of many latencies.
#pragma once

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

namespace outbox::bench
{

// The smallest sample that is not exceeded by this fraction of them (nearest rank), so always a
// value that was measured. 0 gives the smallest, 1 the largest. Throws without samples.
inline double
percentile(std::vector<double> samples, double fraction)
{
    if (samples.empty())
        throw std::invalid_argument("no samples");
    const auto count = static_cast<double>(samples.size());
    const double rank = std::clamp(std::ceil(fraction * count), 1.0, count);
    const auto place = samples.begin() + static_cast<std::ptrdiff_t>(rank) - 1;
    std::nth_element(samples.begin(), place, samples.end());
    return *place;
}

// What several rounds of one measurement gave.
struct Spread
{
    double median = 0;
    double low = 0;
    double high = 0;
};

// The median of an even number of rounds is the mean of the middle two.
inline Spread
spread_of(std::vector<double> rounds)
{
    if (rounds.empty())
        throw std::invalid_argument("no samples");
    std::sort(rounds.begin(), rounds.end());
    const size_t middle = rounds.size() / 2;
    const double median =
        rounds.size() % 2 == 1 ? rounds[middle] : (rounds[middle - 1] + rounds[middle]) / 2;
    return {median, rounds.front(), rounds.back()};
}

} // namespace outbox::bench
