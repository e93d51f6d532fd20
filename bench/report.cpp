#include "report.h"

#include <fmt/format.h>

#include "bench/support/inputs.h"
#include "bench/support/texts.h"
#include "bench/support/topics.h"
#include "reach.h"

namespace outbox::bench
{

namespace
{

// Seconds of processor time for a million events, averaged over the rounds.
double
per_million(const std::vector<DrainRun> &runs, double DrainRun::*seconds)
{
    double sum = 0;
    double events = 0;
    for (const DrainRun &run : runs)
    {
        sum += run.*seconds;
        events += static_cast<double>(run.events);
    }
    return sum / events * 1e6;
}

MemoryUse
most_memory(const std::vector<DrainRun> &runs)
{
    MemoryUse most;
    for (const DrainRun &run : runs)
        most.raise_to(run.memory);
    return most;
}

std::string
drain_line(const char *who, const Spread &rate, const std::vector<DrainRun> &runs)
{
    return fmt::format("  {:<38}{:<32}{:>8.2f} s{:>10.2f} s{:>10.2f} s{:>10}\n", who,
                       with_range(rate, 0), per_million(runs, &DrainRun::cpu_seconds),
                       per_million(runs, &DrainRun::other_cpu_seconds),
                       per_million(runs, &DrainRun::broker_cpu_seconds),
                       megabytes(static_cast<double>(most_memory(runs).own)));
}

std::string
memory_line(int64_t events, const MemoryUse &memory)
{
    return fmt::format("  {:<26}{:>10}{:>32}\n", fmt::format("{} events", events),
                       megabytes(static_cast<double>(memory.own)),
                       megabytes(static_cast<double>(memory.peak_rss)));
}

std::string
drain_text(const DrainResult &drain)
{
    const MemoryUse most = most_memory(drain.relay);
    std::string growth;
    for (const DrainRun &run : drain.growth)
        growth +=
            fmt::format("{}{:>26.0f} events/s\n", memory_line(run.events, run.memory), run.rate());
    std::string peers;
    for (const DrainPeer &peer : drain.peers)
        peers += drain_line(peer.title.c_str(), rate_of(peer.runs), peer.runs);
    return fmt::format("\nDrain of {} committed events: {} bytes of JSON, {} keys, {} partitions; "
                       "{} rounds, median (lowest - highest)\n",
                       drain.relay.front().events, kPayloadBytes, kKeys, kPartitions,
                       drain.relay.size()) +
           fmt::format("  {:<38}{:<32}{:>10}{:>12}{:>12}{:>10}\n", "", "events/s", "CPU/10^6",
                       "others/10^6", "broker/10^6", "memory") +
           drain_line("bare librdkafka producer", drain.bare_rate(), drain.bare) +
           drain_line("outbox relay", drain.relay_rate(), drain.relay) + peers +
           fmt::format("  {:<38}{:.2f}\n", "relay / bare producer", drain.ratio()) +
           "\nThe relay's peak memory meanwhile\n" +
           fmt::format("  {:<26}{:>10}{:>32}\n", "backlog", "its own",
                       "with shared buffers (VmHWM)") +
           memory_line(drain.relay.front().events, most) +
           memory_line(drain.relay_small.events, drain.relay_small.memory) + growth;
}

std::string
latency_line(const std::string &what, const Latencies &latencies, const std::string &more = "")
{
    return fmt::format("  {:<40}{:<24}{:>9.2f}{:>9.2f}{:>10.2f}{}\n", what,
                       with_range(latencies.at(0.5), 2), latencies.at(0.95).median,
                       latencies.at(0.99).median, latencies.at(1).high, more);
}

std::string
way_line(const std::string &who, const Way &way)
{
    return latency_line(who + ": COMMIT -> consumer", way.latencies,
                        fmt::format("{:>8.1f} s{:>9}{}", spread_of(way.cpu_million).median,
                                    megabytes(static_cast<double>(way.memory.own)),
                                    way.missing > 0
                                        ? fmt::format("  {} did not arrive in time", way.missing)
                                        : ""));
}

std::string
latency_text(const LatencyResult &latency)
{
    std::string peers;
    for (const LatencyPeer &peer : latency.peers)
        peers += way_line(peer.title, peer.way);
    return fmt::format("\nLatency at {} events/s of {} clients, {} in a transaction, in ms; {} "
                       "rounds of {} s, medians, the largest of all\n",
                       latency.rate, latency.clients, latency.events_each,
                       latency.floor.rounds.size(), latency.seconds) +
           fmt::format("  {:<40}{:<24}{:>9}{:>9}{:>10}{:>10}{:>9}\n", "", "p50", "p95", "p99",
                       "max", "CPU/10^6", "memory") +
           latency_line("floor: produce -> consumer", latency.floor) +
           latency_line("one commit, of a plain INSERT", latency.commit) +
           way_line("relay", latency.relay) +
           latency_line("relay: that COMMIT alone", latency.relay.commits) + peers +
           fmt::format("  {:<40}{:.2f}\n", "(relay - one commit) / floor, at p50",
                       latency.times_floor());
}

std::string
write_lines(const char *shape, const WriteCosts &costs)
{
    std::string text = fmt::format("  {}\n", shape);
    for (const Writer writer : kWriters)
        text += fmt::format("    {:<30}{:<24}{:>8.2f}{:>10.1f}{:>10.2f}\n", describe(writer),
                            with_range(costs.microseconds(writer), 2),
                            costs.cpu_microseconds(writer).median, costs.wal_bytes(writer).median,
                            costs.times_bare(writer));
    return text;
}

std::string
write_text(const WriteCostResult &write)
{
    return fmt::format("\nCost of an event where it is written, in the server; {} events a round, "
                       "without full page images\n",
                       write.events) +
           fmt::format("  {:<32}{:<24}{:>8}{:>10}{:>10}\n", "", "us", "CPU us", "WAL bytes",
                       "x bare") +
           write_lines("a prepared statement each", write.single) +
           write_lines("one statement for all", write.set);
}

std::string
application_text(const ApplicationResult &result)
{
    std::string text =
        fmt::format("\nTransactions of {} clients with an UPDATE and an event; {} rounds of {} s\n",
                    result.options.clients, result.ways.front().rates.size(),
                    result.options.seconds) +
        fmt::format("  {:<46}{:<28}{:>9}{:>9}{:>9}\n", "", "transactions/s", "p50 ms", "p95 ms",
                    "p99 ms");
    for (const WriteWay &way : result.ways)
        text += fmt::format("  {:<46}{:<28}{:>9.2f}{:>9.2f}{:>9.2f}\n", way.title,
                            with_range(spread_of(way.rates), 0), spread_of(way.ms.at("p50")).median,
                            spread_of(way.ms.at("p95")).median, spread_of(way.ms.at("p99")).median);
    text += "\nWAL of an event until it is published, in bytes, without full page images\n";
    for (const PublishedWal &wal : result.wal)
        text += fmt::format("  {:<56}{}\n", wal.title, with_range(spread_of(wal.bytes), 1));
    return text;
}

std::string
steady_text(const SteadyResult &steady)
{
    std::string text = fmt::format("\nSteady state: {} events/s for {} s, at the end\n",
                                   steady.options.rate, steady.options.seconds) +
                       fmt::format("  {:<38}{:>9}{:>10}{:>14}{:>13}{:>9}{:>8}\n", "", "table",
                                   "indexes", "dead (most)", "autovacuums", "memory", "CPU");
    for (const SteadyRun &run : steady.runs)
    {
        const SteadySample &last = run.samples.back();
        text += fmt::format("  {:<38}{:>9}{:>10}{:>14}{:>13}{:>9}{:>6.1f} s\n", run.title,
                            megabytes(static_cast<double>(last.table_bytes)),
                            megabytes(static_cast<double>(last.index_bytes)),
                            run.most_dead_tuples(), last.autovacuums,
                            megabytes(static_cast<double>(last.memory.own)), last.cpu_seconds);
    }
    return text;
}

std::string
idempotency_text(const IdempotencyCostResult &result)
{
    std::string text =
        fmt::format("\nCost of a processed event; {} events a round, {} a transaction of the "
                    "consumer\n",
                    result.events, kBatchEvents) +
        fmt::format("  {:<46}{:<24}{:>8}{:>10}\n", "", "us", "CPU us", "WAL bytes");
    for (const Marker marker : kMarkers)
        text += fmt::format("  {:<46}{:<24}{:>8.2f}{:>10.1f}\n", describe(marker),
                            with_range(result.microseconds(marker), 2),
                            result.spread(marker, &WriteCost::cpu_microseconds).median,
                            result.spread(marker, &WriteCost::wal_bytes).median);
    return text;
}

std::string
reach_text(const Results &results)
{
    std::string text = "\nReach\n";
    for (const Reach &reach : reaches(results))
        text += fmt::format("  {:<8}{:<70}{:>8.2f}  ({} {})\n", reach.met() ? "met" : "MISSED",
                            reach.what, reach.figure, reach.at_least ? ">=" : "<=", reach.limit);
    return text;
}

} // namespace

std::string
to_text(const Results &results)
{
    std::string text = fmt::format("\noutbox benchmark of {}\n", results.date);
    for (const auto &[name, value] : results.setup)
        text += fmt::format("  {:<16}{}\n", name, value);
    if (results.drain)
        text += drain_text(*results.drain);
    for (const LatencyResult &latency : results.latency)
        text += latency_text(latency);
    if (results.write)
        text += write_text(*results.write);
    if (results.application)
        text += application_text(*results.application);
    if (results.steady)
        text += steady_text(*results.steady);
    if (results.idempotency)
        text += idempotency_text(*results.idempotency);
    return text + reach_text(results);
}

nlohmann::ordered_json
to_json(const Results &results)
{
    nlohmann::ordered_json all;
    all["date"] = results.date;
    for (const auto &[name, value] : results.setup)
        all["setup"][name] = value;
    if (results.drain)
        all["drain"] = to_json(*results.drain);
    for (const LatencyResult &latency : results.latency)
        all["latency"].push_back(to_json(latency));
    if (results.write)
        all["write_cost"] = to_json(*results.write);
    if (results.application)
        all["application"] = to_json(*results.application);
    if (results.steady)
        all["steady"] = to_json(*results.steady);
    if (results.idempotency)
        all["idempotency_cost"] = to_json(*results.idempotency);
    for (const Reach &reach : reaches(results))
        all["reach"].push_back({{"what", reach.what},
                                {"figure", reach.figure},
                                {reach.at_least ? "at_least" : "at_most", reach.limit},
                                {"met", reach.met()}});
    return all;
}

} // namespace outbox::bench
