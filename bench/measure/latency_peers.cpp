#include "latency_peers.h"

#include <algorithm>
#include <iostream>
#include <stdexcept>

#include <fmt/format.h>

#include "bench/peers/classic_outbox.h"
#include "bench/peers/debezium.h"
#include "bench/peers/polling_relay.h"
#include "bench/support/topics.h"
#include "latency_watch.h"

namespace outbox::bench
{

namespace
{

constexpr int kWorkers[] = {1, 4};
constexpr int64_t kWarmUp = 200000; // with 50,000 the next seconds still had the compiler at work

void
measure_polling(Servers &servers, const LatencyOptions &options, int workers, int rounds,
                LatencyResult &result)
{
    PollingOptions polling;
    polling.workers = workers;
    LatencyPeer peer;
    peer.name = fmt::format("polling_{}", workers);
    peer.title = polling_title(polling);
    peer.settings = polling_settings(polling);
    for (int round = 0; round < rounds; round++)
    {
        const Database database(servers, fmt::format("{}_{}_{}", peer.name, result.rate, round));
        make_classic_outbox(database);
        const auto relay = start_polling_relay(servers, database, polling);
        measure_way(servers, database, kClassicInsertInput, Load(options, result.rate),
                    relay->pid(), peer.way);
        show_progress(peer.name, peer.way.latencies);
    }
    result.peers.push_back(peer);
}

// The code of a JVM gets fast by running.
void
warm_up(Servers &servers, const Database &database)
{
    fill_classic_outbox(database, kWarmUp);
    TopicWatch watch(servers.kafka.bootstrap(), database.topic());
    if (!test::wait_until(std::chrono::seconds(120), [&] { return watch.records() >= kWarmUp; }))
        throw std::runtime_error("Debezium does not get done with its warm-up");
    database.connect().exec("truncate classic_outbox");
}

void
measure_debezium(Servers &servers, const LatencyOptions &options, int rounds,
                 std::vector<LatencyResult> &results)
{
    const LogicalDecoding logical_decoding(servers);
    const Properties properties = debezium_settings(Purpose::kLatency, options.debezium);
    for (LatencyResult &result : results)
    {
        std::cerr << fmt::format("latency of Debezium at {} events/s ...\n", result.rate);
        LatencyPeer peer;
        peer.name = "debezium";
        peer.title = "Debezium";
        peer.settings = describe(properties);
        for (int round = 0; round < rounds; round++)
        {
            const Database database(servers, fmt::format("debezium_{}_{}", result.rate, round));
            make_classic_outbox(database);
            Debezium debezium(servers, database, classic_connector(database, properties));
            warm_up(servers, database);
            measure_way(servers, database, kClassicInsertInput, Load(options, result.rate),
                        debezium.pid(), peer.way);
            show_progress(peer.name, peer.way.latencies);
        }
        result.peers.push_back(peer);
    }
}

} // namespace

void
measure_latency_peers(Servers &servers, const LatencyOptions &options, int rounds,
                      std::vector<LatencyResult> &results)
{
    const auto wanted = [&](const char *peer)
    { return std::find(options.peers.begin(), options.peers.end(), peer) != options.peers.end(); };

    for (LatencyResult &result : results)
    {
        std::cerr << fmt::format("latency of peers at {} events/s ...\n", result.rate);
        for (const int workers : kWorkers)
            if (wanted("polling"))
                measure_polling(servers, options, workers, rounds, result);
    }
    if (wanted("debezium"))
        measure_debezium(servers, options, rounds, results);
}

} // namespace outbox::bench
