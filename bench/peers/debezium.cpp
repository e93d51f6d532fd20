#include "debezium.h"

#include <iostream>
#include <stdexcept>

#include <fmt/format.h>

#include "classic_outbox.h"
#include "support/tree.h"
#include "support/workspace.h"

namespace outbox::bench
{

namespace
{

constexpr auto kFetchLimit = std::chrono::minutes(10);
constexpr auto kStartLimit = std::chrono::seconds(90);
constexpr auto kStopLimit = std::chrono::seconds(30);
constexpr const char *kPublication = "bench_debezium";

const std::string &
archives()
{
    static const std::string dir = []
    {
        std::string said = test::run_or_throw(
            test::Command({test::in_source("scripts/fetch-debezium")}), kFetchLimit);
        said.erase(said.find_last_not_of('\n') + 1);
        return said.substr(said.rfind('\n') + 1);
    }();
    return dir;
}

std::string
write_properties(const std::filesystem::path &file, const Properties &properties)
{
    std::string text;
    for (const auto &[name, value] : properties)
        text.append(name).append("=").append(value).append("\n");
    test::write_file(file, text);
    return file.string();
}

Properties
worker_properties(Servers &servers, const std::filesystem::path &directory)
{
    return {{"bootstrap.servers", servers.kafka.bootstrap()},
            {"key.converter", "org.apache.kafka.connect.storage.StringConverter"},
            {"value.converter", "org.apache.kafka.connect.storage.StringConverter"},
            {"offset.storage.file.filename", (directory / "offsets").string()},
            {"offset.flush.interval.ms", "10000"},
            {"plugin.path", archives() + "/plugins"},
            {"plugin.discovery", "service_load"},
            {"listeners", fmt::format("http://127.0.0.1:{}", test::free_port())}};
}

} // namespace

// poll.interval.ms bounds how long a batch that is not full waits, so it is most of the latency:
// the default of 500 is for other uses. 1 was compared with 10, and linger.ms 0 with 5, over
// backlogs of 100,000: the longer times took a tenth less of the JVM's processor time and were no
// faster. Batches and queue are four times the defaults. --debezium-set compares others.
const Properties &
debezium_settings()
{
    static const std::map<std::string, std::string> settings = {
        {"max.batch.size", "8192"},
        {"max.queue.size", "32768"},
        {"poll.interval.ms", "1"},
        {"extended.headers.enabled", "false"},
        {"producer.override.linger.ms", "0"},
        {"producer.override.batch.size", "262144"},
        {"producer.override.buffer.memory", "67108864"},
    };
    return settings;
}

const std::string &
debezium_jvm_options()
{
    static const std::string options = "-Xms256m -Xmx2g -XX:+UseG1GC -XX:MaxGCPauseMillis=20 "
                                       "-XX:InitiatingHeapOccupancyPercent=35 "
                                       "-XX:+ExplicitGCInvokesConcurrent";
    return options;
}

Properties
classic_connector(const Database &database, const Properties &properties)
{
    database.connect().exec(
        fmt::format("create publication {} for table {} with (publish = 'insert')", kPublication,
                    kClassicTable));
    Properties all = {
        {"name", "outbox"},
        {"connector.class", "io.debezium.connector.postgresql.PostgresConnector"},
        {"tasks.max", "1"},
        {"topic.prefix", "peer"},
        {"plugin.name", "pgoutput"},
        {"slot.name", kPublication},
        {"publication.name", kPublication},
        {"publication.autocreate.mode", "disabled"},
        {"table.include.list", fmt::format("public.{}", kClassicTable)},
        {"snapshot.mode", "no_data"},
        {"transforms", "outbox"},
        {"transforms.outbox.type", "io.debezium.transforms.outbox.EventRouter"},
        {"transforms.outbox.table.field.event.key", "aggregate_id"},
        {"transforms.outbox.route.by.field", "aggregate_type"},
        // The same records as everybody's.
        {"transforms.outbox.table.fields.additional.placement",
         "type:header:event_type,aggregate_type:header,created_at:header"},
    };
    all.insert(debezium_settings().begin(), debezium_settings().end());
    for (const auto &[name, value] : properties)
        all[name] = value;
    return all;
}

LogicalDecoding::LogicalDecoding(Servers &servers) : servers_(servers)
{
    servers_.postgresql.configure("wal_level", "logical");
    servers_.postgresql.configure("wal_sender_timeout", "0"); // while Debezium is paused
    servers_.postgresql.restart();
}

LogicalDecoding::~LogicalDecoding()
{
    try
    {
        servers_.postgresql.configure("wal_level", "replica");
        servers_.postgresql.restart();
    }
    catch (const std::exception &error)
    {
        std::cerr << error.what() << "\n";
    }
}

Debezium::Debezium(Servers &servers, const Database &database, Properties connector)
    : database_(database), slot_(connector.at("slot.name"))
{
    connector["database.hostname"] = "127.0.0.1";
    connector["database.port"] = std::to_string(servers.postgresql.port());
    connector["database.user"] = "postgres";
    connector["database.dbname"] = database.type();
    const std::string name = test::unique_name("debezium-");
    const std::filesystem::path directory = test::run_dir() / name;
    std::filesystem::create_directory(directory);
    log_ = test::new_log(name);

    test::Command command(
        {"java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
         "-Dorg.slf4j.simpleLogger.showDateTime=true",
         "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS", "-cp", archives() + "/connect/*",
         "org.apache.kafka.connect.cli.ConnectStandalone",
         write_properties(directory / "worker.properties", worker_properties(servers, directory)),
         write_properties(directory / "connector.properties", connector)});
    command.directory = directory.string();
    command.output = log_.string();
    command.environment = {{"_JAVA_OPTIONS", debezium_jvm_options()}}; // not the broker's
    process_ = std::make_unique<test::Process>(command);
    wait_until_streaming();
}

void
Debezium::wait_until_streaming()
{
    test::Db db = database_.connect();
    const auto settled = [&]
    {
        return !process_->running() ||
               db.value("select count(*) from pg_replication_slots where slot_name = $1 and active",
                        slot_) == "1";
    };
    if (!test::wait_until(kStartLimit, settled) || !process_->running())
        throw std::runtime_error("Debezium does not start, its log says:\n" +
                                 test::read_file(log_));
}

Debezium::~Debezium()
{
    try
    {
        process_->resume();
        if (!process_->stop(SIGTERM, kStopLimit))
            std::cerr << "Debezium had to be killed, see " << log_.string() << "\n";
        test::Db db = database_.connect();
        const auto drop = [&]
        {
            return db.exec("select pg_drop_replication_slot(slot_name) from pg_replication_slots "
                           "where slot_name = $1 and not active",
                           slot_)
                       .rows() == 1;
        };
        if (!test::wait_until(kStopLimit, drop))
            std::cerr << "Debezium's replication slot stays\n";
    }
    catch (const std::exception &error)
    {
        std::cerr << "cannot end Debezium: " << error.what() << "\n";
    }
}

} // namespace outbox::bench
