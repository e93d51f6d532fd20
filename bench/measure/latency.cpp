#include "latency.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>

#include "bench/peers/bare_producer.h"
#include "bench/support/topics.h"
#include "latency_peers.h"
#include "latency_watch.h"

namespace outbox::bench
{

namespace
{

constexpr auto kLook = std::chrono::milliseconds(50);

using Producers = std::vector<std::unique_ptr<BareProducer>>;

// Each client has a producer of its own.
Producers
producers_for(const Servers &servers, const Topic &topic, int clients,
              const test::KafkaProperties &properties)
{
    Producers producers;
    producers.reserve(static_cast<size_t>(clients));
    for (int client = 0; client < clients; client++)
        producers.push_back(
            std::make_unique<BareProducer>(servers.kafka.bootstrap(), topic.name(), properties));
    return producers;
}

void
measure_produced(Servers &servers, const std::string &name, Load load,
                 const test::KafkaProperties &properties, Latencies &into)
{
    const Topic topic(servers.kafka, name);
    const Producers producers = producers_for(servers, topic, load.clients, properties);
    const auto make_action = [&](int client)
    {
        BareProducer &producer = *producers[static_cast<size_t>(client)];
        return [&load, &producer](int number)
        {
            load.sent[static_cast<size_t>(number)] = std::chrono::system_clock::now();
            producer.produce(std::to_string(number), payload(number),
                             static_cast<uint64_t>(number));
            producer.serve(0);
        };
    };
    const Arrivals arrivals = measure_arrivals(servers, topic.name(), load, 1, make_action);
    if (arrivals.missing > 0)
        throw std::runtime_error("records of the bare producer are missing");
    into.rounds.push_back(arrivals.took);
}

// As services have it.
void
measure_floor(Servers &servers, const std::string &name, const Load &load, LatencyResult &result)
{
    measure_produced(servers, name, load, {{"linger.ms", "0"}}, result.floor);
}

// What order after a refusal asks of a relay: one producer, which has one request under way.
void
measure_one_by_one(Servers &servers, const std::string &name, Load load, LatencyResult &result)
{
    load.clients = 1;
    measure_produced(servers, name, load, {{"linger.ms", "0"}, {"max.in.flight", "1"}},
                     result.one_by_one);
}

// What librdkafka alone takes at this rate, in a process of its own.
void
measure_bare_cpu(Servers &servers, const std::string &name, const Load &load, LatencyResult &result)
{
    constexpr double kMillion = 1e6;
    const Topic topic(servers.kafka, name);
    test::Process producer(bare_producer_command(servers.kafka.bootstrap(), topic.name(),
                                                 load.events(), {load.rate, load.each}));
    TopicWatch watch(servers.kafka.bootstrap(), topic.name());
    const auto wait_for = [&](int64_t events)
    {
        int64_t records = 0;
        while ((records = watch.records()) < events)
        {
            if (!producer.running())
                throw std::runtime_error("the bare producer has ended");
            std::this_thread::sleep_for(kLook);
        }
        return records;
    };
    const int64_t warm = wait_for(static_cast<int64_t>(load.warm_up));
    const double before = cpu_seconds(producer.pid());
    const int64_t all = wait_for(load.events());
    result.bare_cpu_million.push_back((cpu_seconds(producer.pid()) - before) /
                                      static_cast<double>(all - warm) * kMillion);
}

void
measure_commit(const Database &database, Load load, LatencyResult &result)
{
    database.connect().exec("create table bench_plain (type text, key text, event text, "
                            "payload jsonb)");
    const auto make_action = [&](int)
    {
        return transactions(
            database, "insert into bench_plain select $1, aggregate_id, $2, payload from input",
            load);
    };
    run_paced(load.clients, load.rate / load.each, load.events() / load.each, make_action);
    result.commit.rounds.push_back(load.counted_commits());
}

// What a service that writes twice takes: its transaction, then the record by a producer of its
// own.
void
measure_two_writes(Servers &servers, const Database &database, const std::string &name, Load load,
                   LatencyResult &result)
{
    const Topic topic(servers.kafka, name);
    database.connect().exec("create table bench_twice (type text, key text, event text, "
                            "payload jsonb)");
    const Producers producers = producers_for(servers, topic, load.clients, {{"linger.ms", "0"}});
    const auto make_action = [&](int client)
    {
        BareProducer &producer = *producers[static_cast<size_t>(client)];
        const Action commit = transactions(
            database, "insert into bench_twice select $1, aggregate_id, $2, payload from input",
            load);
        return [&load, &producer, commit](int transaction)
        {
            commit(transaction);
            const int first = transaction * load.each;
            for (int number = first; number < first + load.each; number++)
                producer.produce(std::to_string(number), payload(number),
                                 static_cast<uint64_t>(number));
            producer.serve(0);
        };
    };
    const Arrivals arrivals = measure_arrivals(servers, topic.name(), load, load.each, make_action);
    if (arrivals.missing > 0)
        throw std::runtime_error("records of the bare producers are missing");
    result.two_writes.rounds.push_back(arrivals.took);
}

void
measure_relay(Servers &servers, Database &database, const Load &load, LatencyResult &result)
{
    database.start_relay();
    test::Db db = database.connect();
    wait_for_relay(db);
    measure_way(servers, database,
                "select count(outbox.emit($1, aggregate_id, $2, payload)) from input", load,
                running_relay(db), result.relay);
    if (result.relay.missing > 0)
        throw std::runtime_error("events of the relay are missing");
}

LatencyResult
measure_rate(Servers &servers, const LatencyOptions &options, int rate, int rounds)
{
    std::cerr << fmt::format("latency at {} events/s ...\n", rate);
    const Load load(options, rate);
    LatencyResult result;
    result.rate = rate;
    result.events_each = load.each;
    result.seconds = options.seconds;
    result.clients = options.clients;
    for (int round = 0; round < rounds; round++)
    {
        measure_floor(servers, fmt::format("outbox.event.floor_{}_{}", rate, round), load, result);
        show_progress("floor", result.floor);
        measure_one_by_one(servers, fmt::format("outbox.event.one_{}_{}", rate, round), load,
                           result);
        show_progress("one request at a time", result.one_by_one);
        measure_bare_cpu(servers, fmt::format("outbox.event.bare_{}_{}", rate, round), load,
                         result);

        Database database(servers, fmt::format("latency_{}_{}", rate, round));
        measure_commit(database, load, result);
        show_progress("commit", result.commit);
        measure_two_writes(servers, database, fmt::format("outbox.event.twice_{}_{}", rate, round),
                           load, result);
        show_progress("commit, produce", result.two_writes);
        measure_relay(servers, database, load, result);
        show_progress("relay", result.relay.latencies);
        show_progress("its commit", result.relay.commits);
    }
    return result;
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

nlohmann::ordered_json
to_json(const Way &way)
{
    return {{"ms", to_json(way.latencies)},
            {"commit_ms", to_json(way.commits)},
            {"missing", way.missing},
            {"cpu_seconds_per_million", way.cpu_million},
            {"peak_rss_bytes", way.memory.peak_rss},
            {"own_memory_bytes", way.memory.own}};
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

std::vector<LatencyResult>
measure_latency(Servers &servers, const LatencyOptions &options, int rounds)
{
    std::vector<LatencyResult> results;
    for (const int rate : options.rates)
        results.push_back(measure_rate(servers, options, rate, rounds));
    measure_latency_peers(servers, options, rounds, results);
    return results;
}

nlohmann::ordered_json
to_json(const LatencyResult &result)
{
    nlohmann::ordered_json all = {{"rate", result.rate},
                                  {"events_in_transaction", result.events_each},
                                  {"clients", result.clients},
                                  {"seconds", result.seconds},
                                  {"floor_ms", to_json(result.floor)},
                                  {"one_by_one_ms", to_json(result.one_by_one)},
                                  {"bare_cpu_seconds_per_million", result.bare_cpu_million},
                                  {"commit_ms", to_json(result.commit)},
                                  {"two_writes_ms", to_json(result.two_writes)},
                                  {"relay", to_json(result.relay)}};
    for (const LatencyPeer &peer : result.peers)
    {
        all["peers"][peer.name] = to_json(peer.way);
        all["peers"][peer.name]["title"] = peer.title;
        all["peers"][peer.name]["settings"] = peer.settings;
    }
    return all;
}

} // namespace outbox::bench
