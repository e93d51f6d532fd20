// The servers of one run of the benchmark.
#pragma once

#include <map>
#include <string>

#include <sys/types.h>

#include "support/kafka_cluster.h"
#include "support/pg.h"
#include "support/pg_cluster.h"

#include "topics.h"

namespace outbox::bench
{

// What differs from the broker's own defaults, and is printed with the results.
const std::map<std::string, std::string> &broker_settings();
const std::string &jvm_options();

// One Kafka and one PostgreSQL, private to the run. No relay knows of Kafka until its database
// does.
class Servers
{
public:
    // `settings` are PostgreSQL's, on top of those that every run has.
    explicit Servers(const test::Settings &settings = {});

    // PostgreSQL's settings that differ from the defaults.
    const test::Settings &settings() const { return settings_; }

    // Ends both in good order; throws if a server process had crashed.
    void stop();

    test::RealKafka kafka;
    test::PgCluster postgresql;

private:
    test::Settings settings_;
};

// A fresh database with the extension and the inputs. Its relay is idle until start_relay().
class Database
{
public:
    Database(Servers &servers, std::string name);
    ~Database(); // drops it
    Database(const Database &) = delete;
    Database &operator=(const Database &) = delete;

    test::Db connect() const { return {servers_.postgresql, name_}; }
    std::string conninfo() const { return servers_.postgresql.conninfo(name_); }

    // The aggregate type of its events, and the topic that they go to.
    const std::string &type() const { return name_; }
    const std::string &topic() const { return topic_.name(); }

    // Gives the relay its brokers, which makes it start.
    void start_relay();

    // The same without the server's reload, which may be one for several databases.
    void name_kafka();

private:
    Servers &servers_;
    std::string name_;
    Topic topic_;
};

// Process id of the relay of this database once it is publishing, else 0.
pid_t running_relay(test::Db &db);
void wait_for_relay(test::Db &db);

} // namespace outbox::bench
