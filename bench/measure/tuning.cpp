#include "tuning.h"

#include <algorithm>
#include <iostream>

#include <fmt/format.h>

#include "bench/peers/classic_outbox.h"
#include "bench/peers/debezium.h"
#include "bench/peers/polling_relay.h"
#include "drain_peers.h"
#include "latency_watch.h"

namespace outbox::bench
{

namespace
{

constexpr int64_t kWarmUp = 200000;
constexpr int64_t kDebeziumEvents = 300000;
constexpr int64_t kPollingEvents = 500000; // many times what all workers take at once
constexpr int kDrains = 2;
constexpr double kDrainSeconds = 60;
constexpr int kRate = 2000;
constexpr int kSeconds = 8;
const std::vector<int> kBatches = {100, 1000, 3000, 10000, 30000};

const std::vector<Properties> &
candidates()
{
    const auto times = [](const char *poll, const char *linger) -> Properties {
        return {{"poll.interval.ms", poll}, {"producer.override.linger.ms", linger}};
    };
    static const std::vector<Properties> all = {
        times("1", "0"),
        times("1", "5"),
        times("10", "0"),
        times("10", "5"),
        times("50", "5"),
        // Batches of the default size.
        {{"poll.interval.ms", "10"},
         {"producer.override.linger.ms", "5"},
         {"max.batch.size", "2048"},
         {"max.queue.size", "8192"}},
    };
    return all;
}

// One JVM for a candidate: warm after the first drain, it stands still while a backlog gathers. The
// latency comes first, because its consumer reads what is in the topic already.
TunedDebezium
try_debezium(Servers &servers, size_t number)
{
    const Properties &candidate = candidates()[number];
    TunedDebezium tuned;
    for (const auto &[name, value] : candidate)
        tuned.settings += fmt::format("{}{}={}", tuned.settings.empty() ? "" : ", ", name, value);
    const Database database(servers, fmt::format("tuned_{}", number));
    make_classic_outbox(database);
    Debezium debezium(
        servers, database,
        classic_connector(database, debezium_settings(Purpose::kThroughput, candidate)));
    const auto drain = [&](int64_t events)
    {
        debezium.pause();
        database.connect().exec("truncate classic_outbox");
        fill_classic_outbox(database, events);
        return complete(watch_drain(servers, database.topic(), events,
                                    {[&] { debezium.resume(); }, [&] { return debezium.pid(); },
                                     cpu_seconds(debezium.pid())},
                                    kDrainSeconds),
                        database.topic());
    };
    drain(kWarmUp);
    LatencyOptions options;
    options.seconds = kSeconds;
    Way way;
    measure_way(servers, database, kClassicInsertInput, Load(options, kRate), debezium.pid(), way);
    tuned.latency = way.latencies;
    for (int round = 0; round < kDrains; round++)
        tuned.drains.push_back(drain(kDebeziumEvents));
    std::cerr << "  " << tuned.settings << "\n";
    show_progress("debezium", tuned.drains.back());
    show_progress("", tuned.latency);
    return tuned;
}

} // namespace

TuningResult
measure_tuning(Servers &servers, const std::vector<std::string> &peers)
{
    std::cerr << "settings of the peers ...\n";
    TuningResult result;
    result.debezium_events = kDebeziumEvents;
    result.polling_events = kPollingEvents;
    result.rate = kRate;
    result.seconds = kSeconds;
    const auto wanted = [&](const char *peer)
    { return std::find(peers.begin(), peers.end(), peer) != peers.end(); };
    if (wanted("debezium"))
    {
        const LogicalDecoding logical_decoding(servers);
        for (size_t number = 0; number < candidates().size(); number++)
            result.debezium.push_back(try_debezium(servers, number));
    }
    for (const int workers : {1, 4})
        for (const int batch : wanted("polling") ? kBatches : std::vector<int>())
        {
            PollingOptions polling;
            polling.workers = workers;
            polling.batch = batch;
            result.polling.push_back(
                {workers, batch,
                 drain_polling(servers, fmt::format("tuned_{}_{}", workers, batch), polling,
                               kPollingEvents, kDrainSeconds)});
            show_progress(fmt::format("{} x {}", workers, batch).c_str(),
                          result.polling.back().drain);
        }
    return result;
}

nlohmann::ordered_json
to_json(const TuningResult &result)
{
    nlohmann::ordered_json all = {{"debezium", nlohmann::ordered_json::array()},
                                  {"polling", nlohmann::ordered_json::array()},
                                  {"debezium_events", result.debezium_events},
                                  {"polling_events", result.polling_events},
                                  {"rate", result.rate},
                                  {"seconds", result.seconds}};
    for (const TunedDebezium &tuned : result.debezium)
        all["debezium"].push_back({{"settings", tuned.settings},
                                   {"runs", to_json(tuned.drains)},
                                   {"p50", tuned.latency.at(0.5).median},
                                   {"p99", tuned.latency.at(0.99).median}});
    for (const TunedPolling &tuned : result.polling)
        all["polling"].push_back(
            {{"workers", tuned.workers}, {"batch", tuned.batch}, {"run", to_json(tuned.drain)}});
    return all;
}

} // namespace outbox::bench
