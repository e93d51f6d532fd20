#include "kafka_source.h"

#include "errors.h"

#include "extension/core/bootstrap_servers.h"
#include "extension/core/kafka_properties.h"
#include "extension/core/regular_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace outbox::ctl
{

namespace
{

// False, with the reason, when it cannot be read.
bool
read_file(const File &file, std::string &content, std::string &why)
{
    if (!file)
        return false;
    // What is too large is refused by the parser.
    const bool read = read_up_to(file, kMaxConfigBytes, content);
    why = std::strerror(errno);
    return read;
}

void
add(KafkaSource &source, const std::string &origin, const ParsedConfig &parsed)
{
    if (!parsed.verdict.ok)
        throw Error(kFailed, origin + ": " + parsed.verdict.reason, parsed.verdict.hint);
    for (const Property &property : parsed.properties)
    {
        if (is_secret(property.name))
            source.secrets.add(property.value);
        source.properties.push_back(property);
    }
}

bool
is_this_machine(const std::string &place)
{
    for (const char *begin : {"socket ", "localhost ", "127.", "::1 "})
        if (place.rfind(begin, 0) == 0)
            return true;
    return false;
}

// A path on the server means the same file here only when here is there.
void
add_servers_file(KafkaSource &source, const std::string &path, const Database &database)
{
    constexpr const char *kInstead = "; give a file of your own with --kafka-config";
    const std::string name = "outbox.kafka_config_file \"" + path + "\"";
    std::string content;
    std::string why;
    if (!is_this_machine(database.place()) || path[0] != '/')
        source.notes.push_back(name + " is on the server and was not read" + kInstead);
    else if (!read_file(open_regular_file(path, why), content, why))
        source.notes.push_back(name + " cannot be read: " + why + kInstead);
    else
        add(source, name, parse_config_file(content));
}

void
add_database(KafkaSource &source, const KafkaOptions &options, Database &database)
{
    const std::map<std::string, std::string> settings = outbox_settings(database);
    const auto setting = [&](const char *name)
    {
        const auto found = settings.find(name);
        return found == settings.end() ? std::string() : found->second;
    };
    source.bootstrap = setting("outbox.bootstrap_servers");
    source.preloaded = database
                           .query("select not exists (select from pg_settings where name = "
                                  "'shared_preload_libraries' and setting !~ '\\youtbox\\y') as ok")
                           .flag(0, "ok");
    if (settings.count("outbox.kafka_config") == 0)
        source.notes.emplace_back(
            "this role may not see outbox.kafka_config, which may say how to log in to Kafka; give "
            "it with --kafka-config or -X, or grant pg_read_all_settings");
    const std::string file = setting("outbox.kafka_config_file");
    if (!file.empty() && options.config_file.empty())
        add_servers_file(source, file, database);
    add(source, "outbox.kafka_config", parse_config_pairs(setting("outbox.kafka_config")));
}

// What is not among its options is as the settings say, except how its cluster is reached.
void
add_subscription(KafkaSource &source, const KafkaOptions &options, Database &database)
{
    const std::string &name = *options.subscription;
    const Rows rows = database.query("select options ->> 'bootstrap_servers' as servers, "
                                     "options ->> 'kafka_config' as config, "
                                     "options ->> 'kafka_config_file' as file "
                                     "from outbox.subscriptions where name = $1",
                                     {name});
    if (rows.empty())
        throw Error(kFailed, "there is no subscription \"" + name + "\"",
                    "\"outboxctl subscriptions list\" shows which there are.", "", "42704");
    if (!rows.raw(0, "servers"))
        throw Error(kFailed, "subscription \"" + name + "\" does not send to Kafka");
    source.bootstrap = rows.raw(0, "servers").value_or("");
    const std::string file = rows.raw(0, "file").value_or("");
    if (!file.empty() && options.config_file.empty())
        add_servers_file(source, file, database);
    add(source, "kafka_config of subscription " + name,
        parse_config_pairs(rows.raw(0, "config").value_or("")));
}

} // namespace

std::map<std::string, std::string>
outbox_settings(Database &database)
{
    std::map<std::string, std::string> settings;
    const Rows rows =
        database.query("select name, setting from pg_settings where name like 'outbox.%'");
    for (int row = 0; row < rows.count(); row++)
        settings[rows.value(row, "name")] = rows.raw(row, "setting").value_or("");
    return settings;
}

std::string
KafkaSource::masked(const std::string &text) const
{
    std::string copy = text + '\0';
    secrets.mask(copy.data());
    return copy.c_str(); // the text may have become shorter
}

KafkaSource
find_kafka(const KafkaOptions &options, Database *database)
{
    KafkaSource source;
    if (database != nullptr && options.subscription && *options.subscription != "default")
        add_subscription(source, options, *database);
    else if (database != nullptr)
        add_database(source, options, *database);
    if (!options.config_file.empty())
    {
        std::string content;
        std::string why;
        File file(std::fopen(options.config_file.c_str(), "rb")); // it may be a pipe of the shell
        if (!file)
            why = std::strerror(errno);
        if (!read_file(file, content, why))
            throw Error(kFailed, "cannot read " + options.config_file + ": " + why);
        add(source, options.config_file, parse_config_file(content));
    }
    for (const std::string &pair : options.properties)
    {
        const std::size_t equals = pair.find('=');
        if (equals == std::string::npos || equals == 0)
            throw Error(kUsage, "a property is NAME=VALUE");
        const Property property{pair.substr(0, equals), pair.substr(equals + 1)};
        if (is_secret(property.name))
            source.secrets.add(property.value);
        source.properties.push_back(property);
    }
    if (!options.bootstrap.empty())
        source.bootstrap = options.bootstrap;
    const Verdict verdict = check_bootstrap_servers(source.bootstrap);
    if (!verdict.ok)
        throw Error(kUsage, std::string("the list of brokers ") + verdict.reason, verdict.hint);
    if (source.bootstrap.empty())
        throw Error(kFailed, "outbox.bootstrap_servers is empty, so it is not known where Kafka is",
                    std::string(source.preloaded ? "" : "load 'outbox'; ") +
                        "alter system set outbox.bootstrap_servers = 'host:9092'; select "
                        "pg_reload_conf(); or give the brokers with --bootstrap.");
    return source;
}

} // namespace outbox::ctl
