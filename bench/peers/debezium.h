// Debezium's connector for PostgreSQL with its outbox event router, in Kafka Connect standalone,
// over the classic outbox table: an unmodified release, see scripts/fetch-debezium.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "bench/support/servers.h"
#include "support/process.h"

namespace outbox::bench
{

using Properties = std::map<std::string, std::string>;

// The connector's properties that matter for speed, and are printed with the results.
const Properties &debezium_settings();

// The connector over the classic outbox table, whose publication is made. `properties` win over
// those that it has otherwise.
Properties classic_connector(const Database &database, const Properties &properties);

// Heap and collector: what connect-standalone.sh gives the JVM.
const std::string &debezium_jvm_options();

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

class Debezium
{
public:
    // Starts Kafka Connect, and waits until the connector follows the WAL. Where the servers are is
    // added to its properties, which name a publication that is there.
    Debezium(Servers &servers, const Database &database, Properties connector);
    ~Debezium(); // ends it and drops its replication slot
    Debezium(const Debezium &) = delete;
    Debezium &operator=(const Debezium &) = delete;

    pid_t pid() const { return process_->pid(); }

    // The whole process stands still, so that a backlog can gather while the JVM stays warm.
    void pause() { process_->pause(); }
    void resume() { process_->resume(); }

private:
    void wait_until_streaming();

    const Database &database_;
    std::string slot_;
    std::filesystem::path log_;
    std::unique_ptr<test::Process> process_;
};

} // namespace outbox::bench
