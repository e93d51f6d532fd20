#include "debezium.h"

#include <exception>
#include <iostream>

#include <fmt/format.h>

#include "classic_outbox.h"

namespace outbox::bench
{

namespace
{

constexpr const char *kPublication = "bench_debezium";

} // namespace

// poll.interval.ms bounds how long a batch that is not full waits, so it is most of the latency:
// the default of 500 is for other uses. Batches and queue are four times the defaults. "bench
// tuning" compares these and others; --debezium-set changes them.
Properties
debezium_settings(Purpose purpose, const Properties &more)
{
    Properties settings = {
        {"max.batch.size", "8192"},
        {"max.queue.size", "32768"},
        {"poll.interval.ms", "1"},
        {"extended.headers.enabled", "false"},
        {"producer.override.linger.ms", "0"},
        {"producer.override.batch.size", "262144"},
        {"producer.override.buffer.memory", "67108864"},
    };
    if (purpose == Purpose::kThroughput)
    {
        settings["poll.interval.ms"] = "10";
        settings["producer.override.linger.ms"] = "5";
    }
    for (const auto &[name, value] : more)
        settings[name] = value;
    return settings;
}

std::string
describe(const Properties &properties)
{
    std::string text;
    for (const auto &[name, value] : properties)
        text += fmt::format("{}={}, ", name, value);
    return text + "JVM " + test::debezium_jvm_options();
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

} // namespace outbox::bench
