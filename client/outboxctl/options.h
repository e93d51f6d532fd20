// What the command line says, once it is read.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace outbox::ctl
{

struct KafkaOptions
{
    std::optional<std::string> subscription; // whose Kafka; nothing: that of `default`
    std::string bootstrap;                   // empty: outbox.bootstrap_servers
    std::string config_file;                 // empty: outbox.kafka_config_file, if it can be read
    std::vector<std::string> properties;     // name=value, win over everything
};

struct StatusOptions
{
    std::optional<std::string> subscription; // only this one
    bool watch = false;
    double interval = 1; // seconds
};

struct LagOptions
{
    double sample = 1; // seconds
};

struct EmitOptions
{
    std::string aggregate_type;
    std::string aggregate_id;
    std::string event_type;
    std::optional<std::string> payload; // "-": standard input
    std::string file;                   // "-": standard input
    bool tombstone = false;
    bool bytes = false;
    std::vector<std::string> headers; // name=value
    std::optional<std::string> key;
    std::optional<std::string> id;
    std::optional<int> schema_version;
    std::optional<double> wait; // seconds
};

struct TailOptions
{
    KafkaOptions kafka;
    std::vector<std::string> topics;
    bool from_beginning = false;
    std::optional<long long> count;
};

struct FailedOptions
{
    std::optional<std::string> subscription; // nothing: of all that are listed, else `default`
    std::vector<std::string> ids;
    std::string state = "failed";
    std::optional<std::string> aggregate_type;
    std::optional<std::string> event_type;
    std::optional<double> since; // seconds ago
    int limit = 50;
    bool all = false;
    bool yes = false;
    std::string reason;
};

struct ReplayOptions
{
    std::optional<std::string> subscription;
    std::optional<std::string> aggregate_type;
    std::optional<std::string> event_type;
    std::optional<std::string> aggregate_id;
    std::optional<std::string> since; // an age, or a time as PostgreSQL reads it
    std::optional<std::string> until;
    int max_count = 1000;
    int rate = 100; // a second
    std::optional<std::string> topic;
    bool dry_run = false;
    bool yes = false;
    bool detach = false;
    std::string id;
    int limit = 20;
};

struct PauseOptions
{
    std::optional<std::string> subscription;
    std::optional<std::string> reason;
};

struct SubscriptionsOptions
{
    std::string name;
    std::string sink = "kafka";
    std::optional<std::string> options; // JSON
    std::vector<std::string> settings;  // name=value
    std::vector<std::string> aggregate_types;
    std::vector<std::string> event_types;
    std::string start = "now";
    bool yes = false;
};

struct DoctorOptions
{
    KafkaOptions kafka;
    std::string role; // empty: the one that connected
};

struct ContractsOptions
{
    std::string directory = "docs/events";
};

struct Options
{
    std::string conninfo;
    bool json = false;
    std::string colour = "auto";

    StatusOptions status;
    LagOptions lag;
    EmitOptions emit;
    TailOptions tail;
    FailedOptions failed;
    ReplayOptions replay;
    PauseOptions pause;
    SubscriptionsOptions subscriptions;
    DoctorOptions doctor;
    ContractsOptions contracts;
    std::string shell;
};

} // namespace outbox::ctl
