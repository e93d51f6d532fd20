#include <fmt/format.h>

#include "bench/support/texts.h"
#include "show.h"
#include "table.h"

namespace outbox::bench
{

std::string
steady_text(const Json &steady)
{
    const Json &samples = steady.at("samples");
    const Json &last = samples.back();
    Table table({"", "at the end", "at most"});
    const auto sizes = [&](const char *title, const char *figure)
    {
        table.add(
            {title, megabytes(last.at(figure).get<double>()), megabytes(largest(samples, figure))});
    };
    sizes("table", "table_bytes");
    sizes("indexes", "index_bytes");
    table.add({"dead tuples", fmt::format("{}", last.at("dead_tuples").get<int64_t>()),
               fmt::format("{:.0f}", largest(samples, "dead_tuples"))});
    table.add({"autovacuum's turns", fmt::format("{}", last.at("autovacuums").get<int64_t>()), ""});
    sizes("WAL held back by a replication slot", "wal_kept_bytes");
    table.add({"events behind", fmt::format("{}", last.at("behind").get<int64_t>()),
               fmt::format("{:.0f}", largest(samples, "behind"))});
    sizes("memory of the relay's process", "own_memory_bytes");
    table.add(
        {"its processor time", fmt::format("{:.1f} s", last.at("cpu_seconds").get<double>()), ""});
    return fmt::format("{}: {} events/s for {} s.\n\n", steady.at("title").get<std::string>(),
                       steady.at("rate").get<int>(), steady.at("seconds").get<int>()) +
           table.text();
}

std::vector<Plot>
draw_steady(const std::vector<Json> &contenders, const std::filesystem::path &directory)
{
    const auto lines = [&](const auto &value)
    {
        std::vector<Line> all;
        for (const Json &steady : contenders)
        {
            Line line = {steady.at("title").get<std::string>(), {}};
            for (const Json &sample : steady.at("samples"))
                line.points.emplace_back(sample.at("seconds").get<double>(), value(sample));
            all.push_back(line);
        }
        return all;
    };
    const auto size = [](const Json &sample)
    { return sample.at("table_bytes").get<double>() + sample.at("index_bytes").get<double>(); };
    const auto dead = [](const Json &sample) { return sample.at("dead_tuples").get<double>(); };
    return {draw_lines(directory, {"steady_size.svg", "Steady state: table and indexes"},
                       {"seconds"}, {"bytes"}, lines(size)),
            draw_lines(directory, {"steady_dead.svg", "Steady state: dead tuples"}, {"seconds"},
                       {"dead tuples"}, lines(dead))};
}

} // namespace outbox::bench
