#include "parts.h"

#include <stdexcept>

#include "bench/measure/idempotency_cost.h"
#include "bench/measure/profile.h"
#include "bench/measure/tuning.h"
#include "bench/measure/write_cost.h"
#include "bench/show/show.h"

namespace outbox::bench
{

namespace
{

using std::filesystem::path;

template <class Result>
Measured
with_reaches(const Result &result)
{
    return {to_json(result), reaches(result)};
}

// Estimates, from runs on two cores.
constexpr double kEmitsASecond = 60000; // into a backlog
constexpr double kPollingSeconds = 60;  // that four workers and one take for a million events
constexpr double kDebeziumStart = 15;   // with its warm-up
constexpr double kRestart = 4;          // of PostgreSQL

double
per_round(const Options &options, double seconds)
{
    return options.rounds * seconds;
}

double
drain_seconds(const Options &options)
{
    const double fill = static_cast<double>(options.drain.events) / kEmitsASecond;
    const double million = static_cast<double>(options.drain.events) / 1e6;
    return (options.rounds + 1) * (fill + 5 * million) +
           per_round(options, 3 * fill + million * (kPollingSeconds * 2 + 12)) + kDebeziumStart;
}

double
latency_seconds(const Options &options)
{
    constexpr double kWays = 6; // floor, commit, relay, two polling relays, Debezium
    return static_cast<double>(options.latency.rates.size()) *
           per_round(options, kWays * (options.latency.seconds + 2.5) + kDebeziumStart);
}

double
growth_seconds(const Options &options)
{
    double seconds = 20;
    for (const int64_t events : options.growth.backlogs)
        seconds += static_cast<double>(events) * (1 / kEmitsASecond + 3e-6) *
                   (events > 2000000 ? 1 : options.rounds);
    seconds += per_round(options, 3.0 * static_cast<double>(options.growth.clients.size()) *
                                      (options.growth.client_seconds + 1));
    for (const int databases : options.growth.databases)
        seconds += per_round(options, static_cast<double>(options.growth.events) *
                                              (1 / kEmitsASecond + 3e-6) +
                                          2 * databases + 7);
    return seconds;
}

Measured
latency_measured(Servers &servers, const Options &options)
{
    const std::vector<LatencyResult> results =
        measure_latency(servers, options.latency, options.rounds);
    Json figures;
    for (const LatencyResult &result : results)
        figures["rates"].push_back(to_json(result));
    return {figures, reaches(results)};
}

// Of all contenders whose figures there are.
std::vector<Plot>
steady_drawn(const Json &all, const path &directory)
{
    std::vector<Json> contenders;
    for (const char *name : {"steady", "steady-polling", "steady-debezium"})
        if (all.contains(name))
            contenders.push_back(all.at(name));
    return draw_steady(contenders, directory);
}

} // namespace

const std::vector<Part> &
parts()
{
    static const std::vector<Part> list = {
        {"drain", "Drain of a backlog", true, drain_seconds,
         [](Servers &servers, const Options &options)
         { return with_reaches(measure_drain(servers, options.drain, options.rounds)); },
         drain_text,
         [](const Json &all, const path &to) { return draw_drain(all.at("drain"), to); }},

        {"latency", "Latency from COMMIT to consumer", true, latency_seconds, latency_measured,
         latency_text,
         [](const Json &all, const path &to) { return draw_latency(all.at("latency"), to); }},

        {"write", "Cost of an event where it is written", true,
         [](const Options &options) { return per_round(options, options.write_events * 12e-5); },
         [](Servers &servers, const Options &options) {
             return with_reaches(measure_write_cost(servers, options.write_events, options.rounds));
         },
         write_text, nullptr},

        {"application", "What the application pays", true,
         [](const Options &options)
         { return per_round(options, 5 * (options.application.seconds + 1) + 30); },
         [](Servers &servers, const Options &options) {
             return with_reaches(
                 measure_application_cost(servers, options.application, options.rounds));
         },
         application_text,
         [](const Json &all, const path &to)
         { return draw_application(all.at("application"), to); }},

        {"idempotency", "Cost of marking an event as processed", true,
         [](const Options &options) { return per_round(options, options.write_events * 12e-5); },
         [](Servers &servers, const Options &options) {
             return with_reaches(
                 measure_idempotency_cost(servers, options.write_events, options.rounds));
         },
         idempotency_text, nullptr},

        {"steady", "Steady state", true,
         [](const Options &options) { return options.steady.seconds + 5.0; },
         [](Servers &servers, const Options &options)
         { return with_reaches(measure_steady(servers, options.steady)); },
         steady_text, steady_drawn},

        {"steady-polling", "Steady state of the polling relay", true,
         [](const Options &options) { return options.steady.seconds + 5.0; },
         [](Servers &servers, const Options &options)
         { return with_reaches(measure_steady_polling(servers, options.steady)); },
         steady_text, nullptr},

        {"steady-debezium", "Steady state of Debezium", true,
         [](const Options &options)
         { return options.steady.seconds + kDebeziumStart + 2 * kRestart; },
         [](Servers &servers, const Options &options)
         { return with_reaches(measure_steady_debezium(servers, options.steady)); },
         steady_text, nullptr},

        {"growth", "Growth: backlogs, clients, databases", true, growth_seconds,
         [](Servers &servers, const Options &options)
         { return with_reaches(measure_growth(servers, options.growth, options.rounds)); },
         growth_text,
         [](const Json &all, const path &to) { return draw_growth(all.at("growth"), to); }},

        {"tuning", "Settings of the peers", false, [](const Options &) { return 360.0; },
         [](Servers &servers, const Options &options) -> Measured {
             return {to_json(measure_tuning(servers, options.drain.peers)), {}};
         },
         tuning_text, nullptr},

        {"profile", "Profile", false, [](const Options &) { return 40.0; },
         [](Servers &servers, const Options &options) -> Measured {
             return {to_json(measure_profile(servers, options.drain.events)), {}};
         },
         profile_text, nullptr},
    };
    return list;
}

const Part &
part_of(const std::string &name)
{
    for (const Part &part : parts())
        if (part.name == name)
            return part;
    throw std::invalid_argument("there is no part " + name);
}

} // namespace outbox::bench
