#include "reach.h"

#include <algorithm>

#include "report.h"

namespace outbox::bench
{

namespace
{

constexpr double kDrainRatio = 0.6;
constexpr double kTimesFloor = 4;
constexpr double kTimesBareInsert = 1.5;
constexpr double kTimesBareMark = 1.3;
constexpr double kManyPart = 0.1;
constexpr double kMemoryMegabytes = 150;

double
largest_own_memory(const DrainResult &drain)
{
    long bytes = drain.relay_small.memory.own;
    for (const DrainRun &run : drain.relay)
        bytes = std::max(bytes, run.memory.own);
    return static_cast<double>(bytes) / 1e6;
}

} // namespace

std::vector<Reach>
reaches(const Results &results)
{
    std::vector<Reach> all;
    if (results.drain)
    {
        all.push_back({"relay's events/s, as a part of the bare producer's", results.drain->ratio(),
                       kDrainRatio, true});
        all.push_back({"relay's peak memory in MB, without shared memory",
                       largest_own_memory(*results.drain), kMemoryMegabytes, false});
    }
    if (!results.latency.empty())
        all.push_back({"p50 from COMMIT to consumer less one commit, in floors",
                       results.latency.front().times_floor(), kTimesFloor, false});
    if (results.write)
    {
        all.push_back({"emit() in bare INSERTs, a statement each",
                       results.write->single.times_bare(Writer::kEmit), kTimesBareInsert, false});
        all.push_back({"emit() in bare INSERTs, one statement for all",
                       results.write->set.times_bare(Writer::kEmit), kTimesBareInsert, false});
    }
    if (results.idempotency)
    {
        all.push_back({"mark_processed() in bare INSERTs", results.idempotency->times_bare(),
                       kTimesBareMark, false});
        all.push_back({"mark_processed_many(), as a part of single calls",
                       results.idempotency->many_part(), kManyPart, false});
    }
    return all;
}

} // namespace outbox::bench
