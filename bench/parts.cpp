#include "parts.h"

#include <algorithm>
#include <stdexcept>

#include "bench/measure/idempotency_cost.h"
#include "bench/measure/nats.h"
#include "bench/measure/profile.h"
#include "bench/measure/rabbitmq.h"
#include "bench/measure/subscriptions.h"
#include "bench/measure/tuning.h"
#include "bench/measure/write_cost.h"

namespace outbox::bench
{

namespace
{

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

// RabbitMQ takes a tenth of what Kafka takes, NATS a quarter: with fewer events the start of the
// relay's process would be a part of what is measured.
int64_t
rabbitmq_events(const Options &options)
{
    return std::max<int64_t>(options.drain.events / 5, 1);
}

Json
latency_measured(Servers &servers, const Options &options)
{
    const std::vector<LatencyResult> results =
        measure_latency(servers, options.latency, options.rounds);
    Json figures;
    for (const LatencyResult &result : results)
        figures["rates"].push_back(to_json(result));
    return figures;
}

} // namespace

const std::vector<Part> &
parts()
{
    static const std::vector<Part> list = {
        {"drain", "Drain of a backlog", true, drain_seconds,
         [](Servers &servers, const Options &options)
         { return to_json(measure_drain(servers, options.drain, options.rounds)); }},

        {"latency", "Latency from COMMIT to consumer", true, latency_seconds, latency_measured},

        {"write", "Cost of an event where it is written", true,
         [](const Options &options) { return per_round(options, options.write_events * 12e-5); },
         [](Servers &servers, const Options &options)
         { return to_json(measure_write_cost(servers, options.write_events, options.rounds)); }},

        {"application", "What the application pays", true,
         [](const Options &options)
         {
             constexpr int kRuns = 6 * 3; // ways to write, query modes
             return per_round(options, kRuns * (options.application.seconds + 1.0) + 30);
         },
         [](Servers &servers, const Options &options) {
             return to_json(measure_application_cost(servers, options.application, options.rounds));
         }},

        {"idempotency", "Cost of marking an event as processed", true,
         [](const Options &options) { return per_round(options, options.write_events * 12e-5); },
         [](Servers &servers, const Options &options) {
             return to_json(
                 measure_idempotency_cost(servers, options.write_events, options.rounds));
         }},

        {"steady", "Steady state", true,
         [](const Options &options) { return options.steady.seconds + 5.0; },
         [](Servers &servers, const Options &options)
         { return to_json(measure_steady(servers, options.steady)); }},

        {"steady-polling", "Steady state of the polling relay", true,
         [](const Options &options) { return options.steady.seconds + 5.0; },
         [](Servers &servers, const Options &options)
         { return to_json(measure_steady_polling(servers, options.steady)); }},

        {"steady-debezium", "Steady state of Debezium", true,
         [](const Options &options)
         { return options.steady.seconds + kDebeziumStart + 2 * kRestart; },
         [](Servers &servers, const Options &options)
         { return to_json(measure_steady_debezium(servers, options.steady)); }},

        {"growth", "Growth: backlogs, clients, databases", true, growth_seconds,
         [](Servers &servers, const Options &options)
         { return to_json(measure_growth(servers, options.growth, options.rounds)); }},

        {"subscriptions", "Subscriptions: what each further one costs", true,
         [](const Options &options)
         {
             return per_round(options, 3 * (options.latency.seconds + 8) +
                                           static_cast<double>(options.drain.events) *
                                               (2 / kEmitsASecond + 8e-6) +
                                           45);
         },
         [](Servers &servers, const Options &options)
         {
             return to_json(measure_subscriptions(servers, options.write_events,
                                                  options.drain.events, options.latency,
                                                  options.rounds));
         }},

        {"webhook", "Webhooks", true,
         [](const Options &options)
         { return per_round(options, 2.0 * options.webhook.seconds + 15); },
         [](Servers &servers, const Options &options)
         { return to_json(measure_webhook(servers, options.webhook, options.rounds)); }},

        {"rabbitmq", "Drain of a backlog to RabbitMQ", true,
         [](const Options &options)
         { return per_round(options, 40 * rabbitmq_events(options) / 200000.0) + 20; },
         [](Servers &servers, const Options &options)
         { return to_json(measure_rabbitmq(servers, rabbitmq_events(options), options.rounds)); }},

        {"nats", "Drain of a backlog to NATS", true,
         [](const Options &options)
         { return per_round(options, static_cast<double>(options.drain.events) / 20000) + 5; },
         [](Servers &servers, const Options &options)
         { return to_json(measure_nats(servers, options.drain.events, options.rounds)); }},

        {"tuning", "Settings of the peers", false, [](const Options &) { return 360.0; },
         [](Servers &servers, const Options &options)
         { return to_json(measure_tuning(servers, options.drain.peers)); }},

        {"profile", "Profile", false, [](const Options &) { return 40.0; },
         [](Servers &servers, const Options &options)
         { return to_json(measure_profile(servers, options.drain.events)); }},
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
