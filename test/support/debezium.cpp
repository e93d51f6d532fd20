#include "debezium.h"

#include <iostream>
#include <sstream>
#include <stdexcept>

#include "pg.h"
#include "tree.h"
#include "workspace.h"

namespace outbox::test
{

namespace
{

constexpr auto kFetchLimit = std::chrono::minutes(10);
constexpr auto kStartLimit = std::chrono::seconds(90);
constexpr auto kStopLimit = std::chrono::seconds(30);

const std::string &
archives()
{
    static const std::string dir = []
    {
        std::string said =
            run_or_throw(Command({in_source("scripts/fetch-debezium")}), kFetchLimit);
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
    write_file(file, text);
    return file.string();
}

Properties
worker_properties(const std::string &bootstrap, const std::filesystem::path &directory)
{
    return {{"bootstrap.servers", bootstrap},
            {"key.converter", "org.apache.kafka.connect.storage.StringConverter"},
            {"value.converter", "org.apache.kafka.connect.storage.StringConverter"},
            {"offset.storage.file.filename", (directory / "offsets").string()},
            {"offset.flush.interval.ms", "10000"},
            {"plugin.path", archives() + "/plugins"},
            {"plugin.discovery", "service_load"},
            {"listeners", "http://127.0.0.1:" + std::to_string(free_port())}};
}

} // namespace

Properties
read_properties(const std::filesystem::path &file)
{
    std::istringstream lines(read_file(file));
    Properties all;
    for (std::string line; std::getline(lines, line);)
        if (const size_t equals = line.find('=');
            equals != std::string::npos && !line.empty() && line[0] != '#')
            all[line.substr(0, equals)] = line.substr(equals + 1);
    return all;
}

const std::string &
debezium_jvm_options()
{
    static const std::string options = "-Xms256m -Xmx2g -XX:+UseG1GC -XX:MaxGCPauseMillis=20 "
                                       "-XX:InitiatingHeapOccupancyPercent=35 "
                                       "-XX:+ExplicitGCInvokesConcurrent";
    return options;
}

Debezium::Debezium(const PgCluster &server, const std::string &database,
                   const std::string &bootstrap, Properties connector)
    : server_(server), database_(database), slot_(connector.at("slot.name"))
{
    connector["database.hostname"] = "127.0.0.1";
    connector["database.port"] = std::to_string(server.port());
    connector["database.user"] = "postgres";
    connector["database.dbname"] = database;
    const std::string name = unique_name("debezium-");
    const std::filesystem::path directory = run_dir() / name;
    std::filesystem::create_directory(directory);
    log_ = new_log(name);

    Command command(
        {"java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
         "-Dorg.slf4j.simpleLogger.showDateTime=true",
         "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS", "-cp", archives() + "/connect/*",
         "org.apache.kafka.connect.cli.ConnectStandalone",
         write_properties(directory / "worker.properties", worker_properties(bootstrap, directory)),
         write_properties(directory / "connector.properties", connector)});
    command.directory = directory.string();
    command.output = log_.string();
    command.environment = {{"_JAVA_OPTIONS", debezium_jvm_options()}}; // not the broker's
    process_ = std::make_unique<Process>(command);
    wait_until_streaming();
}

void
Debezium::wait_until_streaming()
{
    Db db(server_, database_);
    const auto settled = [&]
    {
        return !process_->running() ||
               db.value("select count(*) from pg_replication_slots where slot_name = $1 and active",
                        slot_) == "1";
    };
    if (!wait_until(kStartLimit, settled) || !process_->running())
        throw std::runtime_error("Debezium does not start, its log says:\n" + read_file(log_));
}

Debezium::~Debezium()
{
    try
    {
        process_->resume();
        if (!process_->stop(SIGTERM, kStopLimit))
            std::cerr << "Debezium had to be killed, see " << log_.string() << "\n";
        Db db(server_, database_);
        const auto drop = [&]
        {
            return db.exec("select pg_drop_replication_slot(slot_name) from pg_replication_slots "
                           "where slot_name = $1 and not active",
                           slot_)
                       .rows() == 1;
        };
        if (!wait_until(kStopLimit, drop))
            std::cerr << "Debezium's replication slot stays\n";
    }
    catch (const std::exception &error)
    {
        std::cerr << "cannot end Debezium: " << error.what() << "\n";
    }
}

} // namespace outbox::test
