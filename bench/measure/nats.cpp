#include "nats.h"

#include <chrono>
#include <iostream>
#include <stdexcept>

#include <fmt/format.h>

#include "bench/measure/drain.h"
#include "bench/peers/bare_nats.h"
#include "test/sinks/nats/support/nats_server.h"

namespace outbox::bench
{

namespace
{

// What the relay's default of 8 MB takes of these events, about.
constexpr std::size_t kWindow = 8000;
const std::string kStream = "EVENTS";

// A stream of its own for each way.
struct Stream
{
    Stream(test::NatsServer &of, const std::string &subject) : server(of)
    {
        server.add_stream({kStream, {subject}});
    }
    ~Stream() { server.delete_stream(kStream); }
    void check(int64_t events)
    {
        if (static_cast<int64_t>(server.count(kStream)) != events)
            throw std::runtime_error("the stream does not have all events once");
    }
    test::NatsServer &server;
};

double
drain_to(Servers &servers, test::NatsServer &nats, int round, int64_t events)
{
    Stream stream(nats, "outbox.event.>");
    Database database(servers, fmt::format("nats_{}", round));
    fill_events(database, events);
    test::Db db = database.connect();
    const auto begin = std::chrono::steady_clock::now();
    db.exec("select outbox.create_subscription('nats', 'nats', jsonb_build_object('servers', "
            "$1::text), start => 'retained')",
            nats.url());
    const auto done = [&]
    {
        return db.value("select coalesce(sum(published_total), 0) from "
                        "outbox.subscription_status") == std::to_string(events);
    };
    if (!test::wait_until(std::chrono::seconds(300), done))
        throw std::runtime_error("the relay does not get done: " +
                                 db.value("select s::text from outbox.subscription_status s"));
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    stream.check(events);
    return static_cast<double>(events) / taken.count();
}

double
drain_bare(test::NatsServer &nats, int round, int64_t events)
{
    const std::string subject = fmt::format("outbox.event.nats_{}", round);
    Stream stream(nats, subject);
    const double taken = publish_bare_nats(nats.url(), subject, events, kWindow, round);
    stream.check(events);
    return static_cast<double>(events) / taken;
}

} // namespace

NatsResult
measure_nats(Servers &servers, int64_t events, int rounds)
{
    std::cerr << "nats ...\n";
    test::NatsServer nats;
    nats.start();
    NatsResult result;
    result.events = events;
    for (int round = 1; round <= rounds; round++)
    {
        result.bare.push_back(drain_bare(nats, round, events));
        result.relay.push_back(drain_to(servers, nats, round, events));
        std::cerr << fmt::format("  bare {:.0f}/s, relay {:.0f}/s\n", result.bare.back(),
                                 result.relay.back());
    }
    return result;
}

nlohmann::ordered_json
to_json(const NatsResult &result)
{
    return {{"events", result.events}, {"bare", result.bare}, {"relay", result.relay}};
}

} // namespace outbox::bench
