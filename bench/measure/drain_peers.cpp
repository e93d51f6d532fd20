#include "drain_peers.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <stdexcept>

#include <fmt/format.h>

#include "bench/peers/classic_outbox.h"
#include "bench/peers/debezium.h"
#include "bench/peers/polling_relay.h"
#include "support/process.h"

namespace outbox::bench
{

namespace
{

constexpr int kWorkers[] = {1, 4};
constexpr int64_t kJvmWarmUp = 200000;

} // namespace

DrainRun
drain_polling(Servers &servers, const std::string &name, const PollingOptions &polling,
              int64_t events, double limit_seconds)
{
    const Database database(servers, name);
    make_classic_outbox(database);
    fill_classic_outbox(database, events);
    std::unique_ptr<test::Process> relay;
    const auto go = [&] { relay = start_polling_relay(servers, database, polling); };
    const DrainRun run = watch_drain(servers, database.topic(), events,
                                     {go, [&] { return relay->pid(); }}, limit_seconds);
    relay.reset();
    check_records(servers, database.topic());
    if (run.complete)
        check_count(servers, database.topic(), events);
    return run;
}

namespace
{

DrainPeer
measure_polling(Servers &servers, const PollingOptions &polling, const DrainOptions &options,
                int rounds)
{
    DrainPeer peer;
    peer.name = fmt::format("polling_{}", polling.workers);
    peer.title =
        fmt::format("polling relay, {} worker{}", polling.workers, polling.workers == 1 ? "" : "s");
    if (!options.polling_batches.empty())
    {
        peer.name += fmt::format("_{}", polling.batch);
        peer.title += fmt::format(", {} rows", polling.batch);
    }
    peer.settings = polling_settings(polling);
    for (int round = 1; round <= rounds; round++)
    {
        peer.runs.push_back(drain_polling(servers, fmt::format("{}_{}", peer.name, round), polling,
                                          options.events, options.peer_seconds));
        show_progress(peer.name.c_str(), peer.runs.back());
    }
    return peer;
}

// One process for all rounds, which has seen a round before it is measured, because the code of a
// JVM gets fast by running. It stands still while the backlog gathers; the word "go" lets it run.
DrainPeer
measure_debezium(Servers &servers, const DrainOptions &options, int rounds)
{
    DrainPeer peer;
    peer.name = "debezium";
    peer.title = "Debezium";
    const Properties properties = debezium_settings(Purpose::kThroughput, options.debezium);
    peer.settings = describe(properties);
    const LogicalDecoding logical_decoding(servers);
    const Database database(servers, "dbz_all");
    make_classic_outbox(database);
    Debezium debezium(servers, database, classic_connector(database, properties));
    for (int round = 0; round <= rounds; round++)
    {
        debezium.pause();
        database.connect().exec("truncate classic_outbox");
        const int64_t events = round == 0 ? std::max(options.events, kJvmWarmUp) : options.events;
        fill_classic_outbox(database, events);
        const auto find = [&] { return debezium.pid(); };
        const DrainRun run = watch_drain(
            servers, database.topic(), events,
            {[&] { debezium.resume(); }, find, cpu_seconds(debezium.pid())}, options.peer_seconds);
        show_progress(round == 0 ? "(warm-up)" : "debezium", run);
        if (round > 0)
            peer.runs.push_back(run);
        if (!run.complete)
            break; // what is left would count for the next round
    }
    check_records(servers, database.topic());
    if (peer.runs.empty())
        throw std::runtime_error("Debezium does not get done with its warm-up in time");
    return peer;
}

} // namespace

std::vector<DrainPeer>
measure_drain_peers(Servers &servers, const DrainOptions &options, int rounds)
{
    const auto wanted = [&](const char *peer)
    { return std::find(options.peers.begin(), options.peers.end(), peer) != options.peers.end(); };

    std::vector<DrainPeer> peers;
    if (wanted("polling"))
        for (const int workers : kWorkers)
        {
            PollingOptions polling;
            polling.workers = workers;
            std::vector<int> batches = options.polling_batches;
            if (batches.empty())
                batches.push_back(polling.batch);
            for (const int batch : batches)
            {
                polling.batch = batch;
                peers.push_back(measure_polling(servers, polling, options, rounds));
            }
        }
    if (wanted("debezium"))
        peers.push_back(measure_debezium(servers, options, rounds));
    return peers;
}

} // namespace outbox::bench
