#include "rabbitmq.h"

#include <stdexcept>

#include <fmt/format.h>

#include "bench/peers/bare_amqp.h"
#include "sinks/amqp/support/amqp_client.h"
#include "sinks/amqp/support/rabbitmq_server.h"

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
    const double taken = drain_by_subscription(
        servers, fmt::format("rabbit_{}", round), events,
        [&](test::Db &db)
        {
            db.exec("select outbox.create_subscription('rabbit', 'rabbitmq', "
                    "jsonb_build_object('host', '127.0.0.1', 'port', $1::int, 'exchange', "
                    "$2::text, 'routing_key', '{aggregate_type}'), start => 'retained')",
                    rabbit.port(), kExchange);
        });
    queue.check(events);
    return static_cast<double>(events) / taken;
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

BrokerDrain
measure_rabbitmq(Servers &servers, int64_t events, int rounds)
{
    const test::RabbitMqServer rabbit;
    (void) drain_bare(rabbit, 0, events); // Erlang's code is compiled by then
    return measure_broker(
        "rabbitmq", events, rounds, [&](int round) { return drain_bare(rabbit, round, events); },
        [&](int round) { return drain_to(servers, rabbit, round, events); });
}

} // namespace outbox::bench
