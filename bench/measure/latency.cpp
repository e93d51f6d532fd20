#include "latency.h"

#include <chrono>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>

#include "bench/peers/bare_producer.h"
#include "bench/support/inputs.h"
#include "bench/support/paced_clients.h"
#include "bench/support/topics.h"
#include "support/consumer.h"

namespace outbox::bench
{

namespace
{

using Time = std::chrono::system_clock::time_point;

constexpr auto kArrivalLimit = std::chrono::seconds(30);
constexpr int kWarmUpSeconds = 1; // connections, topics' leaders, caches

double
milliseconds(Time from, Time to)
{
    return std::chrono::duration<double, std::milli>(to - from).count();
}

// One round of sending at the rate: when each event was sent, and for how long its client waited.
struct Sent
{
    explicit Sent(const LatencyOptions &options)
        : warm_up(static_cast<size_t>(options.rate * kWarmUpSeconds)),
          at(static_cast<size_t>(options.rate * (kWarmUpSeconds + options.seconds))),
          took(at.size())
    {
    }
    size_t warm_up; // so many are not counted
    std::vector<Time> at;
    std::vector<double> took;

    int count() const { return static_cast<int>(at.size()); }
    std::vector<double> waits() const
    {
        return {took.begin() + static_cast<std::ptrdiff_t>(warm_up), took.end()};
    }
};

// Runs the clients while a consumer reads `topic`, and returns each event's way to it. The event's
// number is its key.
std::vector<double>
measure_arrivals(Servers &servers, const std::string &topic, const LatencyOptions &options,
                 Sent &sent, const std::function<Action(int)> &make_action)
{
    test::Consumer consumer(servers.kafka.bootstrap(), {topic});
    consumer.read_for(test::Milliseconds(500)); // connects
    std::exception_ptr error;
    std::thread clients(
        [&]
        {
            try
            {
                run_paced(options.clients, options.rate, sent.count(), make_action);
            }
            catch (...)
            {
                error = std::current_exception();
            }
        });
    const auto limit = std::chrono::seconds(options.seconds + kWarmUpSeconds) + kArrivalLimit;
    const bool all = consumer.read_count(sent.at.size(), limit);
    clients.join();
    if (error)
        std::rethrow_exception(error);
    if (!all)
        throw std::runtime_error(fmt::format("{} of {} events arrived in {}",
                                             consumer.records().size(), sent.count(), topic));
    std::vector<double> arrivals;
    for (const test::Record &record : consumer.records())
    {
        const size_t number = std::stoul(record.key.value());
        if (number >= sent.warm_up)
            arrivals.push_back(milliseconds(sent.at.at(number), record.received));
    }
    return arrivals;
}

const std::string &
payload(int number)
{
    return inputs()[static_cast<size_t>(number) % inputs().size()].payload;
}

// Each client has a producer of its own, as services have.
void
measure_floor(Servers &servers, const std::string &name, LatencyResult &result)
{
    const Topic topic(servers.kafka, name);
    Sent sent(result.options);
    std::vector<std::unique_ptr<BareProducer>> producers;
    producers.reserve(static_cast<size_t>(result.options.clients));
    for (int client = 0; client < result.options.clients; client++)
        producers.push_back(std::make_unique<BareProducer>(
            servers.kafka.bootstrap(), topic.name(), test::KafkaProperties{{"linger.ms", "0"}}));
    const auto make_action = [&](int client)
    {
        BareProducer &producer = *producers[static_cast<size_t>(client)];
        return [&sent, &producer](int number)
        {
            sent.at[static_cast<size_t>(number)] = std::chrono::system_clock::now();
            producer.produce(std::to_string(number), payload(number),
                             static_cast<uint64_t>(number));
            producer.serve(0);
        };
    };
    result.floor.rounds.push_back(
        measure_arrivals(servers, topic.name(), result.options, sent, make_action));
}

// Transactions of one statement and a COMMIT, which alone is timed.
Action
transactions(const Database &database, const std::string &sql, Sent &sent)
{
    auto db = std::make_shared<test::Db>(database.connect());
    return [db, sql, &database, &sent](int number)
    {
        const auto n = static_cast<size_t>(number);
        db->exec("begin");
        db->exec(sql, database.type(), number, kEventType, payload(number));
        sent.at[n] = std::chrono::system_clock::now();
        db->exec("commit");
        sent.took[n] = milliseconds(sent.at[n], std::chrono::system_clock::now());
    };
}

void
measure_commit(const Database &database, LatencyResult &result)
{
    database.connect().exec("create table bench_plain (type text, key text, event text, "
                            "payload jsonb)");
    Sent sent(result.options);
    const auto make_action = [&](int)
    { return transactions(database, "insert into bench_plain values ($1, $2, $3, $4)", sent); };
    run_paced(result.options.clients, result.options.rate, sent.count(), make_action);
    result.commit.rounds.push_back(sent.waits());
}

void
measure_relay(Servers &servers, Database &database, LatencyResult &result)
{
    Sent sent(result.options);
    const auto make_action = [&](int)
    { return transactions(database, "select outbox.emit($1, $2, $3, $4)", sent); };
    result.relay.rounds.push_back(
        measure_arrivals(servers, database.topic(), result.options, sent, make_action));
    result.relay_commit.rounds.push_back(sent.waits());
}

void
show_progress(const char *what, const Latencies &latencies)
{
    const std::vector<double> &last = latencies.rounds.back();
    std::cerr << fmt::format("  {:<12} p50 {:.2f} ms  p99 {:.2f} ms  max {:.2f} ms\n", what,
                             percentile(last, 0.5), percentile(last, 0.99), percentile(last, 1));
}

nlohmann::ordered_json
to_json(const Latencies &latencies)
{
    constexpr std::pair<const char *, double> kFigures[] = {
        {"p50", 0.5}, {"p95", 0.95}, {"p99", 0.99}, {"max", 1}};
    nlohmann::ordered_json all;
    for (const auto &[name, fraction] : kFigures)
        for (const std::vector<double> &round : latencies.rounds)
            all[name].push_back(percentile(round, fraction));
    return all;
}

} // namespace

Spread
Latencies::at(double fraction) const
{
    std::vector<double> values;
    values.reserve(rounds.size());
    for (const std::vector<double> &round : rounds)
        values.push_back(percentile(round, fraction));
    return spread_of(values);
}

double
LatencyResult::times_floor() const
{
    return (relay.at(0.5).median - commit.at(0.5).median) / floor.at(0.5).median;
}

LatencyResult
measure_latency(Servers &servers, const LatencyOptions &options, int rounds)
{
    std::cerr << fmt::format("latency at {} events/s ...\n", options.rate);
    LatencyResult result;
    result.options = options;
    for (int round = 0; round < rounds; round++)
    {
        measure_floor(servers, fmt::format("outbox.event.floor_{}", round), result);
        show_progress("floor", result.floor);

        Database database(servers, fmt::format("latency_{}", round));
        measure_commit(database, result);
        show_progress("commit", result.commit);
        database.start_relay();
        test::Db db = database.connect();
        wait_for_relay(db);
        measure_relay(servers, database, result);
        show_progress("relay", result.relay);
        show_progress("its commit", result.relay_commit);
    }
    return result;
}

nlohmann::ordered_json
to_json(const LatencyResult &result)
{
    return {{"rate", result.options.rate},
            {"clients", result.options.clients},
            {"seconds", result.options.seconds},
            {"floor_ms", to_json(result.floor)},
            {"commit_ms", to_json(result.commit)},
            {"relay_ms", to_json(result.relay)},
            {"relay_commit_ms", to_json(result.relay_commit)}};
}

} // namespace outbox::bench
