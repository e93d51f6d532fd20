// A database with subscriptions, each of which sends to topics that begin with its name.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "servers.h"

namespace outbox::test
{

constexpr auto kLimit = std::chrono::seconds(30);

using Ids = std::vector<std::string>;

struct SubscriptionScene
{
    explicit SubscriptionScene(PgCluster &cluster)
        : server(cluster), database(cluster), db(database.connect())
    {
        kafka().create_topic(database.topic());
    }

    std::string topic(const std::string &name) const { return name + "." + database.type(); }

    // `more`: what follows the options among the arguments.
    void create(const std::string &name, const std::string &more = "",
                const std::string &servers = kafka().bootstrap())
    {
        if (topics_.insert(name).second)
            kafka().create_topic(topic(name));
        db.exec("select outbox.create_subscription($1, 'kafka', jsonb_build_object("
                "'bootstrap_servers', $2::text, 'topic_template', $1 || '.{aggregate_type}', "
                "'backoff_initial', '100ms', 'backoff_max', '400ms')" +
                    more + ")",
                name, servers);
    }

    static std::string emit(Db &session, const std::string &type, const std::string &event = "made",
                            const std::string &key = "k")
    {
        return session.value("select outbox.emit($1, $2, $3, '{}')", type, key, event);
    }
    std::string emit(const std::string &event = "made", const std::string &key = "k")
    {
        return emit(db, database.type(), event, key);
    }

    // What the subscription has sent, when it has sent so many.
    Ids sent(const std::string &name, size_t count)
    {
        Consumer consumer(kafka().bootstrap(), {name.empty() ? database.topic() : topic(name)});
        EXPECT_TRUE(consumer.read_count(count, kLimit)) << describe();
        consumer.read_for(Milliseconds(300));
        Ids ids;
        for (const Record &record : consumer.records())
            ids.push_back(record.header("id").value_or(""));
        return ids;
    }

    bool becomes(const std::string &name, const std::string &state)
    {
        return wait_until(kLimit,
                          [&]
                          {
                              return db.value("select state from outbox.subscription_status "
                                              "where name = $1",
                                              name) == state;
                          });
    }

    std::string describe()
    {
        return db.value("select string_agg(s::text, E'\\n') from outbox.subscription_status s");
    }

    PgCluster &server;
    TestDatabase database;
    Db db;

private:
    std::set<std::string> topics_;
};

} // namespace outbox::test
