#include "drain.h"

#include <algorithm>
#include <iostream>
#include <stdexcept>

#include <fmt/format.h>

#include "bench/peers/bare_producer.h"
#include "bench/support/backlog.h"
#include "bench/support/inputs.h"
#include "bench/support/topics.h"
#include "drain_peers.h"
#include "support/consumer.h"

namespace outbox::bench
{

namespace
{

constexpr double kDrainSeconds = 600;
constexpr int64_t kWarmUp = 500000;

} // namespace

DrainRun
drain_bare(Servers &servers, const Topic &topic, int64_t events,
           const std::function<void(pid_t)> &at_work)
{
    std::unique_ptr<test::Process> producer;
    const auto go = [&]
    {
        producer = std::make_unique<test::Process>(
            bare_producer_command(servers.kafka.bootstrap(), topic.name(), events));
    };
    return complete(watch_drain(servers, topic.name(), events,
                                {go, [&] { return producer->pid(); }, 0, at_work}, kDrainSeconds),
                    topic.name());
}

void
fill_events(const Database &database, int64_t events)
{
    fill(database, events,
         "select count(outbox.emit($1, key, $2, payload)) from bench_inputs "
         "where n between $3 and $4");
}

DrainRun
drain_relay(Servers &servers, Database &database, int64_t events,
            const std::function<void(pid_t)> &at_work)
{
    test::Db db = database.connect();
    const DrainRun run = complete(watch_drain(servers, database.topic(), events,
                                              {[&] { database.start_relay(); },
                                               [&] { return running_relay(db); }, 0, at_work},
                                              kDrainSeconds),
                                  database.topic());

    const bool reported =
        test::wait_until(std::chrono::seconds(10),
                         [&] {
                             return db.value("select published_total from outbox.relay_status") ==
                                    std::to_string(events);
                         });
    if (!reported)
        throw std::runtime_error("the relay does not report all that it published");
    check_count(servers, database.topic(), events);
    return run;
}

namespace
{

// One round of both. Their topics' names are of one length, because records hold them.
void
run_round(Servers &servers, int round, int64_t events, DrainResult &result)
{
    const Topic topic(servers.kafka, fmt::format("outbox.event.limit_{}", round));
    result.bare.push_back(drain_bare(servers, topic, events));
    show_progress("bare", result.bare.back());
    Database database(servers, fmt::format("relay_{}", round));
    fill_events(database, events);
    result.relay.push_back(drain_relay(servers, database, events));
    show_progress("relay", result.relay.back());
    if (round == 0)
        check_same_records(servers, topic.name(), database.topic());
}

} // namespace

DrainResult
measure_drain(Servers &servers, const DrainOptions &options, int rounds)
{
    std::cerr << "drain ...\n";
    DrainResult warm_up; // the broker's code gets compiled by the first records that it sees
    run_round(servers, 0, std::max(options.events, kWarmUp), warm_up);
    DrainResult result;
    for (int round = 1; round <= rounds; round++)
        run_round(servers, round, options.events, result);
    result.peers = measure_drain_peers(servers, options, rounds);
    return result;
}

nlohmann::ordered_json
to_json(const DrainResult &result)
{
    nlohmann::ordered_json all = {{"bare", to_json(result.bare)}, {"relay", to_json(result.relay)}};
    for (const DrainPeer &peer : result.peers)
        all["peers"][peer.name] = {
            {"title", peer.title}, {"settings", peer.settings}, {"runs", to_json(peer.runs)}};
    return all;
}

} // namespace outbox::bench
