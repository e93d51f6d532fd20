#include <fmt/format.h>

#include "bench/support/texts.h"
#include "show.h"
#include "table.h"

namespace outbox::bench
{

std::string
tuning_text(const Json &tuning)
{
    Table debezium({"Debezium", "events/s", "CPU s / million", "p50 ms", "p99 ms"});
    for (const Json &tuned : tuning.at("debezium"))
        debezium.add({tuned.at("settings").get<std::string>(),
                      with_range(spread_over(tuned.at("runs"), "events_per_second"), 0),
                      fmt::format("{:.2f}", per_million(tuned.at("runs"), "cpu_seconds")),
                      fmt::format("{:.2f}", tuned.at("p50").get<double>()),
                      fmt::format("{:.2f}", tuned.at("p99").get<double>())});
    Table polling(
        {"polling relay: workers", "rows in a transaction", "events/s", "CPU s / million"});
    for (const Json &tuned : tuning.at("polling"))
    {
        const Json &run = tuned.at("run");
        polling.add({fmt::format("{}", tuned.at("workers").get<int>()),
                     fmt::format("{}", tuned.at("batch").get<int>()),
                     fmt::format("{:.0f}", run.at("events_per_second").get<double>()),
                     fmt::format("{:.2f}", run.at("cpu_seconds").get<double>() /
                                               run.at("events").get<double>() * 1e6)});
    }
    return fmt::format("The peers with other settings. Debezium drained {} events and got {} a "
                       "second for {} s, each polling relay drained {} events, once.\n\n",
                       tuning.at("debezium_events").get<int64_t>(), tuning.at("rate").get<int>(),
                       tuning.at("seconds").get<int>(),
                       tuning.at("polling_events").get<int64_t>()) +
           debezium.text() + polling.text();
}

} // namespace outbox::bench
