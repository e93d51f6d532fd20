#include "nats.h"

#include <stdexcept>

#include <fmt/format.h>

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
    const double taken = drain_by_subscription(
        servers, fmt::format("nats_{}", round), events,
        [&](test::Db &db)
        {
            db.exec("select outbox.create_subscription('nats', 'nats', "
                    "jsonb_build_object('servers', $1::text), start => 'retained')",
                    nats.url());
        });
    stream.check(events);
    return static_cast<double>(events) / taken;
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

BrokerDrain
measure_nats(Servers &servers, int64_t events, int rounds)
{
    test::NatsServer nats;
    nats.start();
    return measure_broker(
        "nats", events, rounds, [&](int round) { return drain_bare(nats, round, events); },
        [&](int round) { return drain_to(servers, nats, round, events); });
}

} // namespace outbox::bench
