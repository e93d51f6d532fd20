// The tables about what those pay who write events, or mark them as processed.
#include <fmt/format.h>

#include "bench/support/texts.h"
#include "show.h"
#include "table.h"

namespace outbox::bench
{

namespace
{

const char *
title_of_writer(const std::string &name)
{
    if (name == "nothing")
        return "(nothing written)";
    if (name == "bare")
        return "bare INSERT of ready values";
    return name == "emit" ? "outbox.emit()" : "INSERT INTO outbox.events";
}

const char *
title_of_marker(const std::string &name)
{
    if (name == "bare")
        return "bare INSERT ... ON CONFLICT DO NOTHING";
    if (name == "mark")
        return "outbox.mark_processed()";
    return name == "calls" ? "outbox.mark_processed(), waited for"
                           : "outbox.mark_processed_many(), waited for";
}

std::vector<std::string>
cost_row(const std::string &title, const Json &rounds, const Json &bare)
{
    const Spread microseconds = spread_over(rounds, "microseconds");
    return {title, with_range(microseconds, 2),
            fmt::format("{:.2f}", spread_over(rounds, "cpu_microseconds").median),
            fmt::format("{:.1f}", spread_over(rounds, "wal_bytes").median),
            fmt::format("{:.2f}", microseconds.median / spread_over(bare, "microseconds").median)};
}

} // namespace

std::string
write_text(const Json &write)
{
    std::string text = fmt::format("In the server, within a transaction; {} events a round; WAL "
                                   "without full page images.\n\n",
                                   write.at("events").get<int>());
    for (const auto &[shape, title] : {std::pair{"single", "a prepared statement for each event"},
                                       {"set", "one statement for all events"}})
    {
        Table table({title, "us", "CPU us", "WAL bytes", "times bare"});
        for (const auto &[name, rounds] : write.at(shape).items())
            table.add(cost_row(title_of_writer(name), rounds, write.at(shape).at("bare")));
        text += table.text();
    }
    return text;
}

std::string
idempotency_text(const Json &idempotency)
{
    Table table({"", "us", "CPU us", "WAL bytes", "times bare"});
    for (const auto &[name, rounds] : idempotency.items())
        if (rounds.is_array())
            table.add(cost_row(title_of_marker(name), rounds, idempotency.at("bare")));
    return fmt::format("An event that is new; {} events a round, 500 in a transaction of the "
                       "consumer. \"Waited for\" is what a consumer that waits for each answer "
                       "sees.\n\n",
                       idempotency.at("events").get<int>()) +
           table.text();
}

std::string
application_text(const Json &application)
{
    Table ways({"", "transactions/s", "p50 ms", "p95 ms", "p99 ms"});
    for (const auto &[name, way] : application.at("ways").items())
        ways.add({way.at("title").get<std::string>(),
                  with_range(spread_over(way.at("transactions_per_second")), 0),
                  fmt::format("{:.2f}", spread_over(way.at("ms").at("p50")).median),
                  fmt::format("{:.2f}", spread_over(way.at("ms").at("p95")).median),
                  fmt::format("{:.2f}", spread_over(way.at("ms").at("p99")).median)});
    Table wal({"WAL of an event until it is published", "bytes"});
    for (const auto &[name, one] : application.at("wal").items())
        wal.add({one.at("title").get<std::string>(), with_range(spread_over(one.at("bytes")), 1)});
    return fmt::format("Transactions of {} clients of pgbench with an UPDATE of a row and one "
                       "event; rounds of {} s.\n\n",
                       application.at("clients").get<int>(), application.at("seconds").get<int>()) +
           ways.text() + "Without full page images and vacuum.\n\n" + wal.text();
}

std::vector<Plot>
draw_application(const Json &application, const std::filesystem::path &directory)
{
    std::vector<std::pair<std::string, Spread>> rates;
    for (const auto &[name, way] : application.at("ways").items())
        rates.emplace_back(way.at("title").get<std::string>(),
                           spread_over(way.at("transactions_per_second")));
    std::vector<std::pair<std::string, Spread>> wal;
    for (const auto &[name, one] : application.at("wal").items())
        wal.emplace_back(one.at("title").get<std::string>(), spread_over(one.at("bytes")));
    return {
        draw_bars(directory, {"application.svg", "Transactions of 8 clients with an event"},
                  "transactions/s", rates),
        draw_bars(directory, {"wal.svg", "WAL of an event until it is published"}, "bytes", wal)};
}

} // namespace outbox::bench
