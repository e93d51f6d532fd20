#include <fmt/format.h>

#include "bench/support/texts.h"
#include "show.h"
#include "table.h"

namespace outbox::bench
{

namespace
{

std::vector<std::string>
row(const std::string &title, const Json &ms)
{
    return {title, with_range(spread_over(ms.at("p50")), 2),
            fmt::format("{:.2f}", spread_over(ms.at("p95")).median),
            fmt::format("{:.2f}", spread_over(ms.at("p99")).median),
            fmt::format("{:.2f}", spread_over(ms.at("max")).high)};
}

void
add_way(Table &table, const std::string &title, const Json &way)
{
    const int missing = way.at("missing").get<int>();
    std::vector<std::string> cells = row(
        missing == 0 ? title : fmt::format("{} ({} events missing)", title, missing), way.at("ms"));
    cells.push_back(fmt::format("{:.1f}", spread_over(way.at("cpu_seconds_per_million")).median));
    cells.push_back(megabytes(way.at("own_memory_bytes").get<double>()));
    table.add(cells);
}

std::string
rate_text(const Json &rate)
{
    Table table({fmt::format("{} events/s", rate.at("rate").get<int>()), "p50 ms", "p95 ms",
                 "p99 ms", "max ms", "CPU s / million", "memory"});
    table.add(row("floor: produce to consumer", rate.at("floor_ms")));
    table.add(row("one commit, of a plain INSERT", rate.at("commit_ms")));
    add_way(table, "outbox relay", rate.at("relay"));
    table.add(row("that COMMIT alone", rate.at("relay").at("commit_ms")));
    if (rate.contains("peers"))
        for (const auto &[name, peer] : rate.at("peers").items())
            add_way(table, peer.at("title").get<std::string>(), peer);
    return table.text();
}

} // namespace

std::string
latency_text(const Json &latency)
{
    const Json &first = latency.at("rates").front();
    std::string text = fmt::format(
        "From just before COMMIT until the consumer has the record. {} clients; {} rounds of {} s; "
        "medians of the rounds, p50 also with the range, the largest of all. At 20,000 events/s a "
        "transaction has ten.\n\n",
        first.at("clients").get<int>(), first.at("floor_ms").at("p50").size(),
        first.at("seconds").get<int>());
    for (const Json &rate : latency.at("rates"))
        text += rate_text(rate);
    return text + peers_settings(first);
}

std::vector<Plot>
draw_latency(const Json &latency, const std::filesystem::path &directory)
{
    std::vector<Line> lines;
    const Json &rates = latency.at("rates");
    const std::vector<Named> contenders = latency_contenders(rates.front());
    for (size_t i = 0; i < contenders.size(); i++)
        for (const char *figure : {"p50", "p99"})
        {
            Line line = {contenders[i].title, {}, std::string(figure) == "p99"};
            for (const Json &rate : rates)
                line.points.emplace_back(
                    rate.at("rate").get<double>(),
                    spread_over(latency_contenders(rate).at(i).figures->at(figure)).median);
            lines.push_back(line);
        }
    return {draw_lines(directory,
                       {"latency.svg", "COMMIT to consumer: p50, and p99 as a broken line"},
                       {"events/s", Scale::kLogarithmic}, {"ms", Scale::kLogarithmic}, lines)};
}

} // namespace outbox::bench
