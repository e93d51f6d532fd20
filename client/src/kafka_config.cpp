#include "kafka_config.h"

#include "outbox/error.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <initializer_list>
#include <utility>

namespace outbox::v0::detail
{

namespace
{

bool
one_of(const std::string &value, std::initializer_list<const char *> values)
{
    return std::any_of(values.begin(), values.end(),
                       [&](const char *other) { return value == other; });
}

std::string
lower(std::string text)
{
    for (char &c : text)
        c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return text;
}

// What a property of this name holds is not to be shown.
bool
is_secret(const std::string &name)
{
    for (const char *part : {"password", "secret", "token", "key.pem", "credential",
                             "sasl.jaas.config", "oauthbearer.config", "sasl.username"})
        if (name.find(part) != std::string::npos)
            return true;
    return false;
}

bool
is_false(const std::string &value)
{
    return one_of(value, {"false", "f", "0"});
}

bool
is_true(const std::string &value)
{
    return one_of(value, {"true", "t", "1"});
}

// Why a property may not have this value; null if it may.
const char *
objection(const std::string &name, const std::string &value)
{
    if (one_of(name, {"bootstrap.servers", "metadata.broker.list"}))
        return "is an option of its own: bootstrap_servers";
    if (name == "group.id")
        return "is an option of its own: consumer";
    if (one_of(name, {"enable.auto.commit", "auto.commit.enable", "enable.auto.offset.store"}) &&
        !is_false(value))
        return "would commit offsets of records that are not processed yet";
    if (name == "isolation.level" && value != "read_committed")
        return "would show records of transactions that were aborted";
    if (one_of(name, {"auto.offset.reset"}) &&
        !one_of(value, {"earliest", "smallest", "beginning", "error"}))
        return "would skip what a partition holds when it has no valid offset";
    if (one_of(name, {"acks", "request.required.acks"}) && !one_of(value, {"all", "-1"}))
        return "could lose dead letters";
    if (name == "enable.idempotence" && !is_true(value))
        return "could lose or repeat dead letters";
    if (name == "delivery.report.only.error" && !is_false(value))
        return "would leave it open whether a dead letter was written";
    if (one_of(name, {"message.timeout.ms", "delivery.timeout.ms"}))
        return "is an option of its own: dead_letter_timeout";
    if (one_of(name, {"transactional.id", "log.queue", "enable.partition.eof", "topic.blacklist"}))
        return "is not for consumers of events";
    return nullptr;
}

[[noreturn]] void
refuse(const std::string &name, const std::string &value, const std::string &reason)
{
    throw UsageError("Kafka property \"" + name + "\" with value \"" +
                     (is_secret(name) ? "***" : value) + "\" " + reason);
}

void
set(rd_kafka_conf_t *config, const std::string &name, const std::string &value)
{
    std::array<char, 512> text = {};
    if (name.find('\0') != std::string::npos || value.find('\0') != std::string::npos)
        refuse(name.c_str(), "", "contains a zero byte");
    switch (rd_kafka_conf_set(config, name.c_str(), value.c_str(), text.data(), text.size()))
    {
    case RD_KAFKA_CONF_OK:
        return;
    case RD_KAFKA_CONF_UNKNOWN:
        refuse(name, value, "is not known to librdkafka");
    default:
        // librdkafka's own words quote the value.
        refuse(name, value,
               is_secret(name) ? "is invalid" : "is invalid: " + std::string(text.data()));
    }
}

KafkaConfig
make_config(const std::string &bootstrap_servers, const KafkaProperties &own,
            const KafkaProperties &properties)
{
    if (bootstrap_servers.empty())
        throw UsageError("bootstrap_servers is empty");
    KafkaConfig config(rd_kafka_conf_new(), &rd_kafka_conf_destroy);
    set(config.get(), "bootstrap.servers", bootstrap_servers);
    set(config.get(), "log.queue", "true"); // else lines come from librdkafka's threads
    for (const auto &[name, value] : own)
        set(config.get(), name, value);
    for (const auto &[name, value] : properties)
    {
        if (const char *reason = objection(name, lower(value)))
            refuse(name, value, reason);
        set(config.get(), name, value);
    }
    return config;
}

} // namespace

KafkaConfig
make_member_config(const std::string &bootstrap_servers, const std::string &group, bool own_offsets,
                   const KafkaProperties &properties)
{
    const auto reset = properties.find("auto.offset.reset");
    if (own_offsets && reset != properties.end() && reset->second != "error")
        refuse(reset->first, reset->second,
               "would process a topic that was made again without effects, as its offsets are "
               "behind those in PostgreSQL");
    return make_config(bootstrap_servers,
                       {{"group.id", group},
                        {"enable.auto.commit", "false"},
                        {"enable.auto.offset.store", "false"},
                        {"enable.partition.eof", "true"}, // see GroupMember::ends()
                        {"isolation.level", "read_committed"},
                        // librdkafka's default would take what a disk or a network has altered.
                        {"check.crcs", "true"},
                        // librdkafka's default would skip records.
                        {"auto.offset.reset", own_offsets ? "error" : "earliest"},
                        {"reconnect.backoff.max.ms", "2000"},
                        // A topic that comes into being later is found within this time.
                        {"topic.metadata.refresh.interval.ms", "10000"}},
                       properties);
}

KafkaConfig
make_dead_letter_config(const std::string &bootstrap_servers, int timeout_ms,
                        const KafkaProperties &properties)
{
    KafkaConfig config =
        make_config(bootstrap_servers,
                    {{"enable.idempotence", "true"},
                     {"acks", "all"},
                     {"partitioner", "murmur2_random"}, // the partition that Java chooses
                     {"linger.ms", "0"},
                     // What a broker has taken once can be larger than librdkafka's own limit,
                     // and may have fitted only because it was compressed.
                     {"message.max.bytes", "1000000000"},
                     {"compression.type", "lz4"},
                     {"reconnect.backoff.max.ms", "2000"},
                     {"message.timeout.ms", std::to_string(timeout_ms)}},
                    properties);
    set(config.get(), "statistics.interval.ms", "0"); // nobody would get them
    return config;
}

void
try_config(rd_kafka_type_t type, const KafkaConfig &config)
{
    // Prefixes. librdkafka before 2.3.0 cannot destroy some clients with a cooperative assignment.
    std::array<const char *, 10> left_out = {"bootstrap.servers",
                                             "metadata.broker.list",
                                             "security.",
                                             "ssl.",
                                             "enable.ssl.",
                                             "https.",
                                             "sasl.",
                                             "plugin.",
                                             "partition.assignment.strategy",
                                             "group.protocol"};
    KafkaConfig trial(rd_kafka_conf_dup_filter(config.get(), left_out.size(), left_out.data()),
                      &rd_kafka_conf_destroy);
    rd_kafka_destroy_flags(make_client(type, std::move(trial)),
                           RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
}

rd_kafka_t *
make_client(rd_kafka_type_t type, KafkaConfig config)
{
    std::array<char, 512> text = {};
    rd_kafka_t *client = rd_kafka_new(type, config.get(), text.data(), text.size());
    const std::string why = text.data();
    if (client == nullptr && rd_kafka_last_error() == RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE)
        throw Error("librdkafka cannot make a client: " + why, "53000");
    if (client == nullptr)
        throw UsageError("librdkafka does not take the configuration: " + why);
    (void) config.release(); // the client owns it now
    return client;
}

bool
wants_cooperative_rebalancing(const KafkaProperties &properties)
{
    const auto strategy = properties.find("partition.assignment.strategy");
    const auto protocol = properties.find("group.protocol");
    return (strategy != properties.end() &&
            lower(strategy->second).find("cooperative") != std::string::npos) ||
           (protocol != properties.end() && lower(protocol->second) != "classic");
}

void
throw_kafka_error(const std::string &what, rd_kafka_resp_err_t error)
{
    throw KafkaError(what + ": " + rd_kafka_err2str(error), rd_kafka_err2name(error));
}

} // namespace outbox::v0::detail
