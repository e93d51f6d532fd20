#include "servers.h"

#include <cerrno>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <system_error>

#include <fmt/format.h>

#include "inputs.h"

namespace outbox::bench
{

namespace
{

// What kafka-server-start.sh gives a broker, in place of the tests' small and quickly started JVM.
// HotSpot reads this variable after the command line.
constexpr const char *kJvmVariable = "_JAVA_OPTIONS";

} // namespace

const std::map<std::string, std::string> &
broker_settings()
{
    static const std::map<std::string, std::string> settings = {
        {"num.partitions", std::to_string(kPartitions)},
        {"num.network.threads", "3"},
        {"num.io.threads", "8"},
        // Deleted topics free their disk space at once.
        {"log.segment.delete.delay.ms", "0"},
    };
    return settings;
}

const std::string &
jvm_options()
{
    static const std::string options = "-Xms1g -Xmx1g -XX:TieredStopAtLevel=4 -XX:-UseSerialGC "
                                       "-XX:+UseG1GC -XX:MaxGCPauseMillis=20 "
                                       "-XX:InitiatingHeapOccupancyPercent=35";
    return options;
}

Servers::Servers(const test::Settings &settings)
    : kafka(1, broker_settings()), postgresql("bench"), settings_(settings)
{
    settings_.insert({{"synchronous_commit", "on"},
                      {"fsync", "on"},
                      {"full_page_writes", "on"},
                      {"shared_buffers", "512MB"},
                      {"max_wal_size", "4GB"},
                      {"max_worker_processes", "32"},
                      {"checkpoint_timeout", "30min"}});

    if (setenv(kJvmVariable, jvm_options().c_str(), 1) != 0)
        throw std::system_error(errno, std::generic_category(), "setenv");
    kafka.start();
    test::Settings all = settings_;
    all["outbox.bootstrap_servers"] = "";
    postgresql.init(all);
    postgresql.start();
}

void
Servers::stop()
{
    postgresql.stop();
    kafka.stop();
    for (const std::string &line : postgresql.new_crashes())
        throw std::runtime_error("a server process crashed: " + line);
}

Database::Database(Servers &servers, std::string name)
    : servers_(servers), name_(std::move(name)), topic_(servers.kafka, "outbox.event." + name_)
{
    test::Db(servers_.postgresql, "postgres").exec("create database " + name_);
    test::Db db = connect();
    db.exec("create extension outbox");
    load_inputs(db);
    const bool idle = test::wait_until(
        std::chrono::seconds(30),
        [&] { return db.value("select state from outbox.relay_status") == "not_configured"; });
    if (!idle)
        throw std::runtime_error("the relay of " + name_ + " does not get ready");
}

Database::~Database()
{
    try
    {
        test::Db(servers_.postgresql, "postgres").exec("drop database " + name_);
    }
    catch (const std::exception &error)
    {
        std::cerr << "cannot drop " << name_ << ": " << error.what() << "\n";
    }
}

void
Database::start_relay()
{
    name_kafka();
    servers_.postgresql.reload();
}

void
Database::name_kafka()
{
    connect().exec(fmt::format("alter database {} set outbox.bootstrap_servers = '{}'", name_,
                               servers_.kafka.bootstrap()));
}

pid_t
running_relay(test::Db &db)
{
    const test::Param pid =
        db.exec("select case when state = 'running' then pid end from outbox.relay_status")
            .field(0);
    return pid ? std::stoi(*pid) : 0;
}

void
wait_for_relay(test::Db &db)
{
    if (!test::wait_until(std::chrono::seconds(30), [&] { return running_relay(db) != 0; }))
        throw std::runtime_error("the relay does not begin");
}

} // namespace outbox::bench
