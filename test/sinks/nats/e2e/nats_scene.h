// A database with a subscription `n` to NATS JetStream, beside default's, which sends to Kafka.
#pragma once

#include <string>
#include <vector>

#include "../support/nats_server.h"

#include "test/e2e/servers.h"

namespace outbox::test
{

constexpr auto kNatsLimit = std::chrono::seconds(60);

struct NatsScene
{
    explicit NatsScene(PgCluster &cluster, const std::string &config = "")
        : server(cluster), database(cluster), nats(config)
    {
        nats.start();
        nats.add_stream({"EVENTS", {"outbox.event.>"}});
        kafka().create_topic(database.topic());
    }

    void create(const std::string &more = "")
    {
        Db db = database.connect();
        db.exec("select outbox.create_subscription('n', 'nats', jsonb_build_object('servers', "
                "$1::text, 'timeout', '2s', 'backoff_initial', '50ms', 'backoff_max', '400ms')" +
                    more + ")",
                nats.url());
    }

    std::string emit(Db &db, const std::string &key, const std::string &payload = "{}")
    {
        return db.value("select outbox.emit($1, $2, 'made', $3::jsonb)", database.type(), key,
                        payload);
    }

    std::string status(const std::string &column)
    {
        Db db = database.connect();
        return db.value("select coalesce(" + column +
                        "::text, '') from "
                        "outbox.subscription_status where name = 'n'");
    }

    pid_t pid() { return std::stoi("0" + status("pid")); }

    std::vector<Delivery> deliveries(const std::string &stream = "EVENTS")
    {
        std::vector<Delivery> result;
        for (const NatsMessage &message : nats.messages(stream))
        {
            Delivery delivery;
            delivery.id = message.headers.at("id");
            delivery.topic = message.subject;
            delivery.offset = static_cast<int64_t>(message.sequence);
            delivery.key = message.headers.at("Outbox-Key");
            if (message.headers.count("Outbox-Tombstone") == 0)
                delivery.payload = message.value;
            result.push_back(delivery);
        }
        return result;
    }

    Report check()
    {
        Db db = database.connect();
        const std::vector<Event> events = committed_events(db);
        Report report;
        (void) wait_until(kNatsLimit,
                          [&]
                          {
                              if (nats.count("EVENTS") < events.size())
                                  return false;
                              report = compare(events, deliveries());
                              return report.lost.empty();
                          });
        return compare(events, deliveries());
    }

    PgCluster &server;
    TestDatabase database;
    NatsServer nats;
};

} // namespace outbox::test
