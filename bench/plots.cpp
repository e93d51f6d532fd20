#include "plots.h"

#include <fmt/format.h>

#include "support/process.h"
#include "support/workspace.h"

namespace outbox::bench
{

namespace
{

constexpr const char *kHead = "set encoding utf8\n"
                              "set terminal svg size 800,400 background rgb 'white' "
                              "font 'sans-serif,13'\n"
                              "set grid ytics lc rgb '#dddddd'\n"
                              "set border 3\n"
                              "set tics nomirror\n";

// Bars from left to right, with a line from the lowest to the highest round.
std::string
bars_program(const std::string &title, const std::string &unit,
             const std::vector<std::pair<std::string, Spread>> &bars)
{
    std::string data = "$data << EOD\n";
    for (size_t i = 0; i < bars.size(); i++)
        data += fmt::format("{} \"{}\" {} {} {}\n", i, bars[i].first, bars[i].second.median,
                            bars[i].second.low, bars[i].second.high);
    return kHead + data +
           fmt::format("EOD\nset title \"{}\"\nset ylabel \"{}\"\nset yrange [0:*]\n"
                       "set xrange [-0.6:{}]\nset boxwidth 0.6\nset style fill solid 0.7\n"
                       "set format y \"%.0s%c\"\nset xtics rotate by -15\n"
                       "plot $data using 1:3:xtic(2) with boxes lc rgb '#336791' notitle, "
                       "$data using 1:3:4:5 with yerrorbars lc rgb 'black' pt 0 notitle\n",
                       title, unit, static_cast<double>(bars.size()) - 0.4);
}

std::string
drain_program(const Json &drain, const std::string &title)
{
    std::vector<std::pair<std::string, Spread>> bars;
    for (const Named &who : drain_contenders(drain))
        bars.emplace_back(who.title, spread_over(*who.figures, "events_per_second"));
    return bars_program(title, "events/s", bars);
}

// Processor time for a million events: the contender's own, the broker's, everything else's.
std::string
cpu_program(const Json &drain, const std::string &title)
{
    std::string data = "$data << EOD\nwho contender broker others\n";
    for (const Named &who : drain_contenders(drain))
        data +=
            fmt::format("\"{}\" {} {} {}\n", who.title, per_million(*who.figures, "cpu_seconds"),
                        per_million(*who.figures, "broker_cpu_seconds"),
                        per_million(*who.figures, "other_cpu_seconds"));
    return kHead + data +
           fmt::format("EOD\nset title \"{}\"\nset ylabel \"seconds\"\nset yrange [0:*]\n"
                       "set style data histograms\nset style histogram rowstacked\n"
                       "set boxwidth 0.6\nset style fill solid 0.7\nset key outside\n"
                       "set xtics rotate by -15\n"
                       "plot $data using 2:xtic(1) title 'its process' lc rgb '#336791', "
                       "$data using 4 title 'PostgreSQL and others' lc rgb '#9ab8d0', "
                       "$data using 3 title 'Kafka' lc rgb '#bbbbbb'\n",
                       title);
}

// Over the rates, for each contender a full line for p50 and a broken one for p99.
std::string
latency_program(const Json &latency, const std::string &title)
{
    std::string data;
    std::string plots;
    const std::vector<Named> first = latency_contenders(latency.front());
    for (size_t i = 0; i < first.size(); i++)
    {
        data += fmt::format("$who{} << EOD\n", i);
        for (const Json &rate : latency)
        {
            const Json &figures = *latency_contenders(rate).at(i).figures;
            data += fmt::format("{} {} {}\n", rate.at("rate").get<int>(),
                                spread_over(figures.at("p50")).median,
                                spread_over(figures.at("p99")).median);
        }
        data += "EOD\n";
        plots += fmt::format("{}$who{} using 1:2 with linespoints lw 2 pt 7 ps 0.5 lc {} title "
                             "\"{}\", $who{} using 1:3 with linespoints dt 2 pt 6 ps 0.5 lc {} "
                             "notitle",
                             plots.empty() ? "" : ", ", i, i + 1, first[i].title, i, i + 1);
    }
    return kHead + data +
           fmt::format("set title \"{}\"\nset xlabel \"events/s\"\nset ylabel \"ms\"\n"
                       "set logscale xy\nset key outside\n"
                       "plot {}\n",
                       title, plots);
}

// Over the size of the backlog, the rate at which it was drained.
std::string
growth_program(const Json &growth, const std::string &title)
{
    std::string data = "$data << EOD\n";
    for (const Json &run : growth)
        data += fmt::format("{} {}\n", run.at("events").get<int64_t>(),
                            run.at("events_per_second").get<double>());
    return kHead + data +
           fmt::format("EOD\nset title \"{}\"\nset xlabel \"events\"\nset ylabel \"events/s\"\n"
                       "set logscale x\nset yrange [0:*]\nset format xy \"%.0s%c\"\n"
                       "plot $data using 1:2 with linespoints lw 2 pt 7 lc rgb '#336791' notitle\n",
                       title);
}

void
draw(const std::filesystem::path &directory, const Plot &plot, const std::string &program)
{
    const std::string svg = std::filesystem::absolute(directory / plot.file).string();
    const std::filesystem::path file = test::run_dir() / (plot.file + ".gnuplot");
    test::write_file(file, fmt::format("set output '{}'\n", svg) + program);
    test::run_or_throw(test::Command({"gnuplot", file.string()}));
}

} // namespace

std::vector<Plot>
draw_plots(const Json &results, const std::filesystem::path &directory)
{
    std::filesystem::create_directories(directory);
    std::vector<Plot> plots;
    const auto add = [&](const Plot &plot, const Json &figures,
                         std::string (*program)(const Json &, const std::string &))
    {
        draw(directory, plot, program(figures, plot.title));
        plots.push_back(plot);
    };
    if (results.contains("drain"))
    {
        add({"drain.svg", "Drain of a backlog"}, results.at("drain"), drain_program);
        add({"drain_cpu.svg", "Processor time for a million events"}, results.at("drain"),
            cpu_program);
    }
    if (results.contains("drain") && results.at("drain").contains("growth"))
        add({"growth.svg", "The relay's drain of growing backlogs"},
            results.at("drain").at("growth"), growth_program);
    if (results.contains("latency"))
        add({"latency.svg", "COMMIT to consumer: p50, and p99 as a broken line"},
            results.at("latency"), latency_program);
    return plots;
}

} // namespace outbox::bench
