#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "pg_cluster.h"
#include "process.h"

namespace outbox::test
{

using Properties = std::map<std::string, std::string>;

// The lines "name=value" of a properties file.
Properties read_properties(const std::filesystem::path &file);

// Heap and collector: what connect-standalone.sh gives the JVM.
const std::string &debezium_jvm_options();

// Debezium's connector for PostgreSQL in Kafka Connect standalone: an unmodified release, see
// scripts/fetch-debezium. The server needs wal_level = logical.
class Debezium
{
public:
    // Starts Kafka Connect, and waits until the connector follows the WAL. Where the servers are is
    // added to its properties, which name a publication that is there.
    Debezium(const PgCluster &server, const std::string &database, const std::string &bootstrap,
             Properties connector);
    ~Debezium(); // ends it and drops its replication slot
    Debezium(const Debezium &) = delete;
    Debezium &operator=(const Debezium &) = delete;

    pid_t pid() const { return process_->pid(); }

    // The whole process stands still, so that a backlog can gather while the JVM stays warm.
    void pause() { process_->pause(); }
    void resume() { process_->resume(); }

private:
    void wait_until_streaming();

    const PgCluster &server_;
    std::string database_;
    std::string slot_;
    std::filesystem::path log_;
    std::unique_ptr<Process> process_;
};

} // namespace outbox::test
