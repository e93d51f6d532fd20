#include "latency_peers.h"

#include <algorithm>
#include <iostream>

#include <fmt/format.h>

#include "bench/peers/classic_outbox.h"
#include "bench/peers/polling_relay.h"
#include "latency_watch.h"

namespace outbox::bench
{

namespace
{

constexpr int kWorkers[] = {1, 4};

void
measure_polling(Servers &servers, const LatencyOptions &options, int workers, int rounds,
                LatencyResult &result)
{
    PollingOptions polling;
    polling.workers = workers;
    LatencyPeer peer;
    peer.name = fmt::format("polling_{}", workers);
    peer.title = polling_title(polling);
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
}

} // namespace outbox::bench
