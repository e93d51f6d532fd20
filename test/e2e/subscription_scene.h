// What tests of subscriptions share: a database, and what arrives of it by each of them.
#pragma once

#include <algorithm>
#include <map>
#include <set>

#include "ring.h"
#include "servers.h"

namespace outbox::test
{

constexpr auto kLimit = std::chrono::seconds(30);

using Ids = std::vector<std::string>;

// A database whose subscriptions send to topics that begin with their names.
struct Scene
{
    explicit Scene(PgCluster &cluster) : server(cluster), database(cluster), db(database.connect())
    {
        kafka().create_topic(database.topic());
    }

    std::string topic(const std::string &name) const { return name + "." + database.type(); }

    // Options of a subscription whose topics begin with this name, as SQL.
    static std::string options(const std::string &name, const std::string &servers)
    {
        return "jsonb_build_object('bootstrap_servers', '" + servers + "', 'topic_template', '" +
               name + ".{aggregate_type}', 'backoff_initial', '100ms', 'backoff_max', '400ms')";
    }

    // `more`: what follows the options among the arguments.
    void create(const std::string &name, const std::string &more = "",
                const std::string &servers = kafka().bootstrap())
    {
        if (topics_.insert(name).second)
            kafka().create_topic(topic(name));
        db.exec("select outbox.create_subscription('" + name + "', 'kafka', " +
                options(name, servers) + more + ")");
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
    Ids sent(const std::string &name, size_t count,
             const std::string &servers = kafka().bootstrap())
    {
        Consumer consumer(servers, {name.empty() ? database.topic() : topic(name)});
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

    std::string of(const std::string &column, const std::string &name)
    {
        return db.value("select " + column + " from outbox.subscription_status where name = $1",
                        name);
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

inline std::string
pid_of(Scene &scene, const std::string &name)
{
    return scene.db.value("select coalesce(pid, 0) from outbox.subscription_status where name = $1",
                          name);
}

// A server without a Kafka.
struct NoKafka
{
    OwnCluster server = OwnCluster(
        Settings{{"outbox.bootstrap_servers", ""}, {"outbox.retention", "2s"}, {"fsync", "off"}});
    Scene scene = Scene(server);
};

} // namespace outbox::test
