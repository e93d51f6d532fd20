#include "rabbitmq.h"

#include <chrono>
#include <iostream>
#include <stdexcept>

#include <fmt/format.h>

#include "bench/measure/drain.h"
#include "bench/peers/bare_amqp.h"
#include "support/amqp_client.h"
#include "support/rabbitmq_server.h"

namespace outbox::bench
{

namespace
{

constexpr std::size_t kWindow = 1024; // the relay's default
const std::string kExchange = "events";
const std::string kQueue = "all";

// A queue of its own for each way, so that none begins with what another has left.
struct Queue
{
    explicit Queue(const test::RabbitMqServer &server) : client(server.port())
    {
        client.declare_exchange(kExchange);
        client.declare_queue(kQueue);
        client.bind(kQueue, kExchange);
    }
    ~Queue() { client.delete_queue(kQueue); }
    void check(int64_t events)
    {
        if (static_cast<int64_t>(client.count(kQueue)) < events)
            throw std::runtime_error("not all events are in the queue");
    }
    test::AmqpClient client;
};

double
drain_to(Servers &servers, const test::RabbitMqServer &rabbit, int round, int64_t events)
{
    Queue queue(rabbit);
    Database database(servers, fmt::format("rabbit_{}", round));
    fill_events(database, events);
    test::Db db = database.connect();
    const auto begin = std::chrono::steady_clock::now();
    db.exec("select outbox.create_subscription('rabbit', 'rabbitmq', jsonb_build_object('host', "
            "'127.0.0.1', 'port', $1::int, 'exchange', $2::text, 'routing_key', "
            "'{aggregate_type}'), start => 'retained')",
            rabbit.port(), kExchange);
    const auto done = [&]
    {
        return db.value("select coalesce(sum(published_total), 0) from "
                        "outbox.subscription_status") == std::to_string(events);
    };
    if (!test::wait_until(std::chrono::seconds(300), done))
        throw std::runtime_error("the relay does not get done: " +
                                 db.value("select s::text from outbox.subscription_status s"));
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    queue.check(events);
    return static_cast<double>(events) / taken.count();
}

double
drain_bare(const test::RabbitMqServer &rabbit, int round, int64_t events)
{
    Queue queue(rabbit);
    const double taken =
        publish_bare(rabbit.port(), kExchange, fmt::format("rabbit_{}", round), events, kWindow);
    queue.check(events);
    return static_cast<double>(events) / taken;
}

} // namespace

RabbitMqResult
measure_rabbitmq(Servers &servers, int64_t events, int rounds)
{
    std::cerr << "rabbitmq ...\n";
    const test::RabbitMqServer rabbit;
    RabbitMqResult result;
    result.events = events;
    (void) drain_bare(rabbit, 0, events); // Erlang's code is compiled by then
    for (int round = 1; round <= rounds; round++)
    {
        result.bare.push_back(drain_bare(rabbit, round, events));
        result.relay.push_back(drain_to(servers, rabbit, round, events));
        std::cerr << fmt::format("  bare {:.0f}/s, relay {:.0f}/s\n", result.bare.back(),
                                 result.relay.back());
    }
    return result;
}

nlohmann::ordered_json
to_json(const RabbitMqResult &result)
{
    return {{"events", result.events}, {"bare", result.bare}, {"relay", result.relay}};
}

} // namespace outbox::bench
