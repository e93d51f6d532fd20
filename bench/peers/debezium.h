// Debezium's connector for PostgreSQL with its outbox event router, over the classic outbox table.
#pragma once

#include <string>

#include "bench/support/servers.h"
#include "support/debezium.h"

namespace outbox::bench
{

using test::Properties;

// What Debezium is measured for: its settings are the best for that.
enum class Purpose
{
    kThroughput,
    kLatency
};

// The connector's properties that matter for speed; those in `more` win.
Properties debezium_settings(Purpose purpose, const Properties &more = {});

// "name=value, ...", and the JVM's options.
std::string describe(const Properties &properties);

// The connector over the classic outbox table, whose publication is made, with these properties
// besides those that say what it reads and writes.
Properties classic_connector(const Database &database, const Properties &properties);

// For as long as it lives, PostgreSQL has wal_level = logical, which all but Debezium would only
// pay for. Restarts the server twice.
class LogicalDecoding
{
public:
    explicit LogicalDecoding(Servers &servers);
    ~LogicalDecoding();
    LogicalDecoding(const LogicalDecoding &) = delete;
    LogicalDecoding &operator=(const LogicalDecoding &) = delete;

private:
    Servers &servers_;
};

// Over a database of the run.
class Debezium : public test::Debezium
{
public:
    Debezium(const Servers &servers, const Database &database, const Properties &connector)
        : test::Debezium(servers.postgresql, database.type(), servers.kafka.bootstrap(), connector)
    {
    }
};

} // namespace outbox::bench
