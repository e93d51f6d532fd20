#include "document.h"

#include <stdexcept>

#include <fmt/format.h>

#include "bench/support/texts.h"
#include "support/workspace.h"

namespace outbox::bench
{

namespace
{

constexpr const char *kBegin = "<!-- begin of what scripts/bench wrote -->\n";
constexpr const char *kEnd = "<!-- end of what scripts/bench wrote -->\n";
constexpr const char *kNewPage = "# Benchmarks\n\n"
                                 "`make bench` measures the relay and the write path beside their "
                                 "limits and beside what people would otherwise use.\n"
                                 "`DOCUMENT=1 make bench` writes the figures below, all of one "
                                 "run.\n\n";

std::string
row(const std::vector<std::string> &cells)
{
    std::string text = "|";
    for (const std::string &cell : cells)
        text += " " + cell + " |";
    return text + "\n";
}

std::string
head(const std::vector<std::string> &cells)
{
    std::string text = row(cells) + "|---|";
    for (size_t i = 1; i < cells.size(); i++)
        text += "---:|";
    return text + "\n";
}

std::string
setup_text(const Json &results)
{
    std::string text = fmt::format("Run of {}.\n\n", results.at("date").get<std::string>());
    text += head({"", ""});
    for (const auto &[name, value] : results.at("setup").items())
        text += row({name, value.get<std::string>()});
    return text;
}

std::string
reach_text(const Json &reaches)
{
    std::string text = "\n## Reach\n\n" + head({"", "figure", "limit", ""});
    for (const Json &reach : reaches)
    {
        const bool at_least = reach.contains("at_least");
        text += row({reach.at("what").get<std::string>(),
                     fmt::format("{:.2f}", reach.at("figure").get<double>()),
                     fmt::format("{} {}", at_least ? ">=" : "<=",
                                 reach.at(at_least ? "at_least" : "at_most").get<double>()),
                     reach.at("met").get<bool>() ? "met" : "**missed**"});
    }
    return text;
}

std::string
drain_text(const Json &drain)
{
    std::string text =
        "\n## Drain of a backlog\n\n" +
        fmt::format("{} committed events. Processor time is for a million events; \"others\" is "
                    "PostgreSQL without the relay, and the watching. Memory is without "
                    "PostgreSQL's shared buffers.\n\n",
                    drain.at("relay").front().at("events").get<int64_t>()) +
        head({"", "events/s", "CPU s", "Kafka's CPU s", "others' CPU s", "memory"});
    for (const Named &who : drain_contenders(drain))
    {
        bool complete = true;
        for (const Json &run : *who.figures)
            complete = complete && run.at("complete").get<bool>();
        text += row({who.title + (complete ? "" : " (time over before all had arrived)"),
                     with_range(spread_over(*who.figures, "events_per_second"), 0),
                     fmt::format("{:.2f}", per_million(*who.figures, "cpu_seconds")),
                     fmt::format("{:.2f}", per_million(*who.figures, "broker_cpu_seconds")),
                     fmt::format("{:.2f}", per_million(*who.figures, "other_cpu_seconds")),
                     megabytes(largest(*who.figures, "peak_own_memory_bytes"))});
    }
    return text;
}

std::string
latency_text(const Json &latency)
{
    std::string text =
        "\n## Latency from COMMIT to consumer\n\nIn milliseconds: the medians of the "
        "rounds, and the largest of all.\n\n" +
        head({"", "events/s", "p50", "p95", "p99", "max"});
    for (const Json &rate : latency)
        for (const Named &who : latency_contenders(rate))
            text += row({who.title, fmt::format("{}", rate.at("rate").get<int>()),
                         with_range(spread_over(who.figures->at("p50")), 2),
                         fmt::format("{:.2f}", spread_over(who.figures->at("p95")).median),
                         fmt::format("{:.2f}", spread_over(who.figures->at("p99")).median),
                         fmt::format("{:.2f}", spread_over(who.figures->at("max")).high)});
    return text;
}

std::string
write_cost_text(const Json &write)
{
    std::string text =
        "\n## Cost of an event where it is written\n\nIn the server; WAL without full "
        "page images.\n\n" +
        head({"", "microseconds", "CPU microseconds", "WAL bytes"});
    for (const char *shape : {"single", "set"})
        for (const auto &[name, rounds] : write.at(shape).items())
            text += row({fmt::format("{}, {}", name,
                                     std::string(shape) == "set" ? "one statement for all"
                                                                 : "a prepared statement each"),
                         with_range(spread_over(rounds, "microseconds"), 2),
                         fmt::format("{:.2f}", spread_over(rounds, "cpu_microseconds").median),
                         fmt::format("{:.1f}", spread_over(rounds, "wal_bytes").median)});
    return text;
}

std::string
application_text(const Json &application)
{
    std::string text = fmt::format("\n## What the application pays\n\nTransactions of {} clients "
                                   "with an UPDATE and an event.\n\n",
                                   application.at("clients").get<int>()) +
                       head({"", "transactions/s", "p50 ms", "p95 ms", "p99 ms"});
    for (const auto &[name, way] : application.at("ways").items())
        text += row({way.at("title").get<std::string>(),
                     with_range(spread_over(way.at("transactions_per_second")), 0),
                     fmt::format("{:.2f}", spread_over(way.at("ms").at("p50")).median),
                     fmt::format("{:.2f}", spread_over(way.at("ms").at("p95")).median),
                     fmt::format("{:.2f}", spread_over(way.at("ms").at("p99")).median)});
    text += "\n" + head({"WAL of an event until it is published", "bytes"});
    for (const auto &[name, wal] : application.at("wal").items())
        text +=
            row({wal.at("title").get<std::string>(), with_range(spread_over(wal.at("bytes")), 1)});
    return text;
}

std::string
growth_text(const Json &growth)
{
    std::string text = "\n## Growth\n\n" + head({"backlog", "events/s", "CPU s", "memory"});
    for (const Json &run : growth)
        text += row({fmt::format("{}", run.at("events").get<int64_t>()),
                     fmt::format("{:.0f}", run.at("events_per_second").get<double>()),
                     fmt::format("{:.2f}", run.at("cpu_seconds").get<double>()),
                     megabytes(run.at("peak_own_memory_bytes").get<double>())});
    return text;
}

std::string
steady_text(const Json &steady)
{
    std::string text =
        fmt::format("\n## Steady state\n\n{} events/s for {} s; what there is at the "
                    "end, and the most dead tuples that there were.\n\n",
                    steady.at("rate").get<int>(), steady.at("seconds").get<int>()) +
        head({"", "table", "indexes", "dead tuples", "autovacuums", "CPU s", "memory"});
    for (const auto &[name, run] : steady.at("runs").items())
    {
        const Json &last = run.at("samples").back();
        text += row({run.at("title").get<std::string>(),
                     megabytes(last.at("table_bytes").get<double>()),
                     megabytes(last.at("index_bytes").get<double>()),
                     fmt::format("{:.0f}", largest(run.at("samples"), "dead_tuples")),
                     fmt::format("{}", last.at("autovacuums").get<int64_t>()),
                     fmt::format("{:.1f}", last.at("cpu_seconds").get<double>()),
                     megabytes(last.at("own_memory_bytes").get<double>())});
    }
    return text;
}

std::string
generated(const Json &results, const std::vector<Plot> &plots, const std::string &directory)
{
    std::string text = setup_text(results);
    if (results.contains("reach"))
        text += reach_text(results.at("reach"));
    if (results.contains("drain"))
        text += drain_text(results.at("drain"));
    if (results.contains("latency"))
        text += latency_text(results.at("latency"));
    if (results.contains("write_cost"))
        text += write_cost_text(results.at("write_cost"));
    if (results.contains("application"))
        text += application_text(results.at("application"));
    if (results.contains("steady"))
        text += steady_text(results.at("steady"));
    if (results.contains("drain") && results.at("drain").contains("growth"))
        text += growth_text(results.at("drain").at("growth"));
    for (const Plot &plot : plots)
        text += fmt::format("\n![{}]({}/{})\n", plot.title, directory, plot.file);
    return text;
}

} // namespace

void
write_document(const Json &results, const std::vector<Plot> &plots,
               const std::string &plots_directory, const std::filesystem::path &page)
{
    std::string text = std::filesystem::exists(page) ? test::read_file(page)
                                                     : std::string(kNewPage) + kBegin + kEnd;
    const size_t begin = text.find(kBegin);
    const size_t end = text.find(kEnd);
    if (begin == std::string::npos || end == std::string::npos || end < begin)
        throw std::runtime_error(page.string() + " has lost the marks between which figures go");
    const size_t from = begin + std::string(kBegin).size();
    text.replace(from, end - from, "\n" + generated(results, plots, plots_directory) + "\n");
    test::write_file(page, text);
}

} // namespace outbox::bench
