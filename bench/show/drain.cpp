#include <fmt/format.h>

#include "bench/support/texts.h"
#include "show.h"
#include "table.h"

namespace outbox::bench
{

std::string
drain_text(const Json &drain)
{
    Table table({"", "events/s", "CPU s", "Kafka's CPU s", "others' CPU s", "memory",
                 "with shared buffers"});
    for (const Named &who : drain_contenders(drain))
    {
        bool complete = true;
        for (const Json &run : *who.figures)
            complete = complete && run.at("complete").get<bool>();
        table.add({who.title + (complete ? "" : " (time over before all had arrived)"),
                   with_range(spread_over(*who.figures, "events_per_second"), 0),
                   fmt::format("{:.2f}", per_million(*who.figures, "cpu_seconds")),
                   fmt::format("{:.2f}", per_million(*who.figures, "broker_cpu_seconds")),
                   fmt::format("{:.2f}", per_million(*who.figures, "other_cpu_seconds")),
                   megabytes(largest(*who.figures, "peak_own_memory_bytes")),
                   megabytes(largest(*who.figures, "peak_rss_bytes"))});
    }
    const Json &relay = drain.at("relay");
    return fmt::format("{} committed events of 250 bytes of JSON, 10,000 keys, 8 partitions; {} "
                       "rounds, their median (lowest - highest).\nProcessor time is for a million "
                       "events; \"others\" is all else on the machine: PostgreSQL without the "
                       "relay, and the watching.\n\"Memory\" is the process's own at its peak; "
                       "PostgreSQL's shared buffers come on top in the last column.\n\n",
                       relay.front().at("events").get<int64_t>(), relay.size()) +
           table.text() + peers_settings(drain);
}

std::vector<Plot>
draw_drain(const Json &drain, const std::filesystem::path &directory)
{
    std::vector<std::pair<std::string, Spread>> bars;
    std::vector<std::pair<std::string, std::vector<double>>> stacks;
    for (const Named &who : drain_contenders(drain))
    {
        bars.emplace_back(who.title, spread_over(*who.figures, "events_per_second"));
        stacks.push_back({who.title,
                          {per_million(*who.figures, "cpu_seconds"),
                           per_million(*who.figures, "other_cpu_seconds"),
                           per_million(*who.figures, "broker_cpu_seconds")}});
    }
    return {draw_bars(directory, {"drain.svg", "Drain of a backlog"}, "events/s", bars),
            draw_stacks(directory, {"drain_cpu.svg", "Processor time for a million events"},
                        "seconds", {"its process", "PostgreSQL and others", "Kafka"}, stacks)};
}

} // namespace outbox::bench
