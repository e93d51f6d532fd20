#include "reach.h"

#include <algorithm>

#include <fmt/format.h>

#include "bench/measure/application_cost.h"
#include "bench/measure/drain.h"
#include "bench/measure/growth.h"
#include "bench/measure/idempotency_cost.h"
#include "bench/measure/latency.h"
#include "bench/measure/steady.h"
#include "bench/measure/write_cost.h"

namespace outbox::bench
{

namespace
{

constexpr double kDrainRatio = 0.8;
constexpr double kTimesDebezium = 4;
constexpr double kTimesPolling = 20;
constexpr double kCpuOfDebezium = 0.25;
constexpr double kMemoryMegabytes = 100;
constexpr double kTimesFloor = 2.5;
constexpr double kMostMs = 10;
constexpr double kLatencyOfDebezium = 0.2;
constexpr double kTimesBareInsert = 1.25;
constexpr int64_t kSmallBacklog = 100000;
constexpr int64_t kLargeBacklog = 10000000;
constexpr double kGrownRate = 0.9;
constexpr double kWalOfClassic = 0.4;
constexpr double kTimesBareMark = 1.3;
constexpr double kManyPart = 0.1;
constexpr int kLatencyRate = 200; // events a second, that the limits of latency are for

double
largest_own_memory(const std::vector<DrainRun> &runs)
{
    long bytes = 0;
    for (const DrainRun &run : runs)
        bytes = std::max(bytes, run.memory.own);
    return static_cast<double>(bytes) / 1e6;
}

// Of the peer with one worker or with four, whichever is faster.
double
polling_rate(const DrainResult &drain)
{
    double rate = 0;
    for (const DrainPeer &peer : drain.peers)
        if (peer.name != "debezium")
            rate = std::max(rate, rate_of(peer.runs).median);
    return rate;
}

void
add_latency(const LatencyResult &latency, std::vector<Reach> &all)
{
    const auto what = [&](const char *text)
    { return fmt::format("{}, at {} events/s", text, latency.rate); };

    all.push_back({what("p50 from COMMIT to consumer less one commit, in floors"),
                   latency.times_floor(), kTimesFloor, false});
    all.push_back({what("p99 from COMMIT to consumer in ms"),
                   latency.relay.latencies.at(0.99).median, kMostMs, false});
    if (const LatencyPeer *debezium = latency.peer("debezium"))
        all.push_back(
            {what("p50, as a part of Debezium's"),
             latency.relay.latencies.at(0.5).median / debezium->way.latencies.at(0.5).median,
             kLatencyOfDebezium, false});
}

} // namespace

std::vector<Reach>
reaches(const DrainResult &drain)
{
    std::vector<Reach> all;
    all.push_back(
        {"relay's events/s, as a part of the bare producer's", drain.ratio(), kDrainRatio, true});
    const double rate = drain.relay_rate().median;
    if (const DrainPeer *debezium = drain.peer("debezium"))
    {
        all.push_back({"relay's events/s in Debezium's", rate / rate_of(debezium->runs).median,
                       kTimesDebezium, true});
        all.push_back({"relay's processor time, as a part of Debezium's",
                       cpu_per_million(drain.relay) / cpu_per_million(debezium->runs),
                       kCpuOfDebezium, false});
    }
    if (polling_rate(drain) > 0)
        all.push_back({"relay's events/s in the fastest polling relay's",
                       rate / polling_rate(drain), kTimesPolling, true});
    all.push_back({"relay's peak memory in MB, without shared memory",
                   largest_own_memory(drain.relay), kMemoryMegabytes, false});
    return all;
}

std::vector<Reach>
reaches(const std::vector<LatencyResult> &latency)
{
    std::vector<Reach> all;
    for (const LatencyResult &rate : latency)
        if (rate.rate == kLatencyRate)
            add_latency(rate, all);
    return all;
}

std::vector<Reach>
reaches(const WriteCostResult &write)
{
    return {{"emit() in bare INSERTs, a statement each", write.single.times_bare(Writer::kEmit),
             kTimesBareInsert, false},
            {"emit() in bare INSERTs, one statement for all", write.set.times_bare(Writer::kEmit),
             kTimesBareInsert, false}};
}

std::vector<Reach>
reaches(const ApplicationResult &application)
{
    return {{"WAL of a published event, as a part of the classic table's", application.wal_part(),
             kWalOfClassic, false}};
}

std::vector<Reach>
reaches(const SteadyResult &steady)
{
    if (steady.run.name != kRelayRun)
        return {};
    return {{"dead tuples in outbox.events", static_cast<double>(steady.run.most_dead_tuples()), 0,
             false}};
}

std::vector<Reach>
reaches(const GrowthResult &growth)
{
    std::vector<Reach> all;
    double largest = 0;
    for (const BacklogGrowth &backlog : growth.backlogs)
        largest = std::max(largest, largest_own_memory(backlog.runs));
    all.push_back({"relay's peak memory in MB at any backlog, without shared memory", largest,
                   kMemoryMegabytes, false});
    const BacklogGrowth *small = growth.backlog(kSmallBacklog);
    const BacklogGrowth *large = growth.backlog(kLargeBacklog);
    if (small != nullptr && large != nullptr)
        all.push_back({"relay's events/s at 10^7 events, as a part of those at 10^5",
                       rate_of(large->runs).median / rate_of(small->runs).median, kGrownRate,
                       true});
    return all;
}

std::vector<Reach>
reaches(const IdempotencyCostResult &idempotency)
{
    return {{"mark_processed() in bare INSERTs", idempotency.times_bare(), kTimesBareMark, false},
            {"mark_processed_many(), as a part of single calls", idempotency.many_part(), kManyPart,
             false}};
}

} // namespace outbox::bench
