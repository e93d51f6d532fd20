// A RabbitMQ, and a subscription to it.
#pragma once

#include <string>
#include <vector>

#include "e2e/faults.h"
#include "sinks/amqp/support/amqp_client.h"
#include "sinks/amqp/support/rabbitmq_server.h"

namespace outbox::test
{

// One for all tests of this program, as its start takes long; it runs.
RabbitMqServer &rabbitmq();

constexpr auto kRabbitLimit = std::chrono::seconds(60);
const std::string kRabbitName = "rabbit";

// For a subscription that does not give its events up soon.
const std::string kPatient = R"({"max_attempts": 1000})";

// A database with a subscription to a RabbitMQ, of which a queue gets all.
struct RabbitMqScene
{
    RabbitMqScene(PgCluster &cluster, RabbitMqServer &at, const std::string &type = "topic")
        : server(cluster), rabbit(at), database(cluster), db(database.connect()),
          exchange(unique_name("events")), queue(unique_name("queue")),
          uri_file(run_dir() / unique_name("uri"))
    {
        AmqpClient(rabbit.port()).declare_bound(queue, exchange, type);
        kafka().create_topic(database.topic());
        write_file(uri_file,
                   "amqp://guest:guest@127.0.0.1:" + std::to_string(rabbit.port()) + "\n");
        give_to_server_user(uri_file);
    }

    void create(const std::string &more = "", const std::string &name = kRabbitName)
    {
        db.exec("select outbox.create_subscription($1, 'rabbitmq', jsonb_build_object("
                "'uri_file', $2::text, 'exchange', $3::text, "
                "'routing_key', 'outbox.event.{aggregate_type}', 'backoff_initial', '100ms', "
                "'backoff_max', '400ms', 'heartbeat', '2s')" +
                    (more.empty() ? "" : " || '" + more + "'") + ")",
                name, uri_file.string(), exchange);
    }

    std::string status(const std::string &column)
    {
        return db.value("select coalesce((" + column +
                            ")::text, '') from outbox.subscription_status where name = $1",
                        kRabbitName);
    }
    bool becomes(const std::string &condition)
    {
        return wait_until(
            kRabbitLimit,
            [&]
            {
                return db.value("select coalesce(" + condition +
                                    ", false) from outbox.subscription_status where name = $1",
                                kRabbitName) == "t";
            });
    }
    std::string describe()
    {
        return db.value("select string_agg(s::text, E'\\n') from outbox.subscription_status s");
    }
    std::string emit(const std::string &key, const std::string &event = "made",
                     const std::string &payload = "{}")
    {
        return db.value("select outbox.emit($1, $2, $3, $4::jsonb)", database.type(), key, event,
                        payload);
    }

    // Takes what is in the queue.
    void read()
    {
        AmqpClient client(rabbit.port());
        for (AmqpMessage &message : client.get_all(queue))
            messages.push_back(std::move(message));
    }
    bool read_count(size_t count)
    {
        return wait_until(kRabbitLimit,
                          [&]
                          {
                              read();
                              return messages.size() >= count;
                          });
    }
    // Until every committed event is there.
    Report check()
    {
        const std::vector<Event> events = committed_events(db);
        Report report;
        (void) wait_until(std::chrono::seconds(90),
                          [&]
                          {
                              read();
                              report = compare(events, deliveries());
                              return report.lost.empty() && becomes_idle();
                          });
        read();
        return compare(events, deliveries());
    }

    PgCluster &server;
    RabbitMqServer &rabbit;
    TestDatabase database;
    Db db;
    const std::string exchange;
    const std::string queue;
    const std::filesystem::path uri_file;
    std::vector<AmqpMessage> messages;

private:
    bool becomes_idle()
    {
        return status("in_flight_events = 0 and retrying_events = 0 and waiting_events = 0") ==
               "true";
    }
    std::vector<Delivery> deliveries() const
    {
        std::vector<Delivery> all;
        for (const AmqpMessage &message : messages)
        {
            Delivery delivery;
            delivery.id = message.id;
            delivery.topic = message.routing_key;
            delivery.offset = static_cast<int64_t>(all.size());
            delivery.key = message.header("key");
            if (message.header("tombstone") != "true")
                delivery.payload = message.body;
            all.push_back(delivery);
        }
        return all;
    }
};

} // namespace outbox::test
