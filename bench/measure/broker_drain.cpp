#include "broker_drain.h"

#include <chrono>
#include <iostream>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>

#include "bench/measure/drain.h"

namespace outbox::bench
{

namespace
{

constexpr auto kLimit = std::chrono::seconds(300);
constexpr auto kLook = std::chrono::milliseconds(5);

} // namespace

BrokerDrain
measure_broker(const std::string &name, int64_t events, int rounds,
               const std::function<double(int)> &bare, const std::function<double(int)> &relay)
{
    std::cerr << name << " ...\n";
    BrokerDrain result;
    result.events = events;
    for (int round = 1; round <= rounds; round++)
    {
        result.bare.push_back(bare(round));
        result.relay.push_back(relay(round));
        std::cerr << fmt::format("  bare {:.0f}/s, relay {:.0f}/s\n", result.bare.back(),
                                 result.relay.back());
    }
    return result;
}

double
drain_by_subscription(Servers &servers, const std::string &database, int64_t events,
                      const std::function<void(test::Db &)> &create)
{
    Database filled(servers, database);
    fill_events(filled, events);
    test::Db db = filled.connect();
    const auto begin = std::chrono::steady_clock::now();
    create(db);
    const auto done = [&]
    {
        return db.value("select coalesce(sum(published_total), 0) from "
                        "outbox.subscription_status") == std::to_string(events);
    };
    while (!done())
    {
        if (std::chrono::steady_clock::now() - begin > kLimit)
            throw std::runtime_error("the relay does not get done: " +
                                     db.value("select s::text from outbox.subscription_status s"));
        std::this_thread::sleep_for(kLook);
    }
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    return taken.count();
}

nlohmann::ordered_json
to_json(const BrokerDrain &result)
{
    return {{"events", result.events}, {"bare", result.bare}, {"relay", result.relay}};
}

} // namespace outbox::bench
