#include <fmt/format.h>

#include "bench/support/texts.h"
#include "show.h"
#include "table.h"

namespace outbox::bench
{

namespace
{

std::string
backlogs_text(const Json &backlogs)
{
    Table table({"events in the backlog", "events/s", "first after", "CPU s / million",
                 "relay's memory", "memory of a writer's backend"});
    for (const Json &backlog : backlogs)
    {
        const Json &runs = backlog.at("runs");
        table.add({fmt::format("{}", backlog.at("events").get<int64_t>()),
                   with_range(spread_over(runs, "events_per_second"), 0),
                   fmt::format("{:.2f} s", spread_over(runs, "first_seconds").median),
                   fmt::format("{:.2f}", per_million(runs, "cpu_seconds")),
                   megabytes(largest(runs, "peak_own_memory_bytes")),
                   megabytes(backlog.at("writer_memory_bytes").get<double>())});
    }
    return "Backlogs, from the reload that tells the relay of Kafka until all is there. What the "
           "start takes (\"first after\") counts, and is most of it for a small one. One round of "
           "the largest.\n\n" +
           table.text();
}

std::string
clients_text(const Json &clients)
{
    Table table({"", "clients", "events/s", "backends' CPU us", "memory of a backend"});
    for (const Json &way : clients)
        table.add({way.at("title").get<std::string>(),
                   fmt::format("{}", way.at("clients").get<int>()),
                   with_range(spread_over(way.at("events_per_second")), 0),
                   with_range(spread_over(way.at("cpu_microseconds")), 1),
                   megabytes(way.at("backend_memory_bytes").get<double>())});
    return "More clients of pgbench, each event in a transaction of its own. Processor time is all "
           "that the backends took for it, from the statement to the end of the commit, their "
           "start "
           "included.\n\n" +
           table.text();
}

std::string
databases_text(const Json &databases)
{
    Table table({"databases", "events/s of all", "relays' CPU s / million",
                 "Kafka's CPU s / million", "memory of all relays",
                 "CPU s of all in an hour without events"});
    for (const Json &count : databases)
    {
        const Json &runs = count.at("runs");
        table.add({fmt::format("{}", count.at("databases").get<int>()),
                   with_range(spread_over(runs, "events_per_second"), 0),
                   fmt::format("{:.2f}", per_million(runs, "cpu_seconds")),
                   fmt::format("{:.2f}", per_million(runs, "broker_cpu_seconds")),
                   megabytes(largest(runs, "peak_own_memory_bytes")),
                   with_range(spread_over(count.at("idle_cpu_seconds_per_hour")), 1)});
    }
    return "More databases, each with a relay, which drain one backlog's events between them at "
           "the same time.\n\n" +
           table.text();
}

Plot
draw_backlogs(const Json &backlogs, const std::filesystem::path &directory)
{
    Line line;
    for (const Json &backlog : backlogs)
        line.points.emplace_back(backlog.at("events").get<double>(),
                                 spread_over(backlog.at("runs"), "events_per_second").median);
    return draw_lines(directory, {"growth_backlog.svg", "The relay's drain of growing backlogs"},
                      {"events", Scale::kLogarithmic}, {"events/s"}, {line});
}

Plot
draw_clients(const Json &clients, const std::filesystem::path &directory)
{
    std::vector<Line> lines;
    for (const Json &way : clients)
    {
        const std::string title = way.at("title").get<std::string>();
        size_t place = 0;
        while (place < lines.size() && lines[place].title != title)
            place++;
        if (place == lines.size())
            lines.push_back({title, {}});
        lines[place].points.emplace_back(way.at("clients").get<double>(),
                                         spread_over(way.at("cpu_microseconds")).median);
    }
    return draw_lines(directory, {"growth_clients.svg", "The server's processor time for an event"},
                      {"clients"}, {"microseconds"}, lines);
}

Plot
draw_databases(const Json &databases, const std::filesystem::path &directory)
{
    constexpr double kMegabyte = 1e6;
    Line line;
    for (const Json &count : databases)
        line.points.emplace_back(count.at("databases").get<double>(),
                                 largest(count.at("runs"), "peak_own_memory_bytes") / kMegabyte);
    return draw_lines(directory,
                      {"growth_databases.svg", "Memory of all relays, while they drain a backlog"},
                      {"databases"}, {"MB"}, {line});
}

} // namespace

std::string
growth_text(const Json &growth)
{
    return backlogs_text(growth.at("backlogs")) + clients_text(growth.at("clients")) +
           databases_text(growth.at("databases"));
}

std::vector<Plot>
draw_growth(const Json &growth, const std::filesystem::path &directory)
{
    return {draw_backlogs(growth.at("backlogs"), directory),
            draw_clients(growth.at("clients"), directory),
            draw_databases(growth.at("databases"), directory)};
}

} // namespace outbox::bench
