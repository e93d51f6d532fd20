#include "client_config.h"

#include "refused_connection.h"

#include "extension/core/bootstrap_servers.h"
#include "extension/core/kafka_properties.h"

#include <algorithm>
#include <climits>
#include <string>

namespace outbox::kafka
{

namespace
{

constexpr const char *kHint =
    "librdkafka's CONFIGURATION.md lists the properties and their values.";

struct Default
{
    const char *name;
    const char *value;
};

constexpr Default kDefaults[] = {
    // The promises: nothing lost, no repeats by retries, ordered by key, Java's partitions.
    {"enable.idempotence", "true"},
    {"acks", "all"},
    {"partitioner", "murmur2_random"},
    // The relay decides how long an event may take; a time-out here would leave a gap.
    {"message.timeout.ms", "0"},
    {"socket.nagle.disable", "true"},
    // For as long as there is more to hand over; Producer::send_now() ends it.
    {"linger.ms", "25"},
    {"topic.metadata.refresh.fast.interval.ms", "50"}, // after a partition lost its leader
    // A topic that is not there holds up what follows it, so it is given up early; the relay tries
    // again.
    {"topic.metadata.propagation.max.ms", "5000"},
    // librdkafka's threads must not write to the server's stderr.
    {"log.queue", "true"},
};

bool
is_shown(const Property &property) noexcept
{
    return !property.from_file && !is_secret(property.name);
}

// Refuses a property in a sentence that names it and, if that may be shown, its value.
bool
refuse_property(const Property &property, const char *reason, const char *hint, Failure &why)
{
    const std::string shown_name(clip(property.name, 80));
    const std::string shown_value(is_shown(property) ? clip(property.value, 80) : "***");
    describe_config(why, hint, "Kafka property \"%s\" with value \"%s\" %s", shown_name.c_str(),
                    shown_value.c_str(), reason);
    return false;
}

bool
set(rd_kafka_conf_t *config, const Property &property, Failure &why)
{
    char text[512];
    const rd_kafka_conf_res_t result =
        rd_kafka_conf_set(config, property.name.c_str(), property.value.c_str(), text, sizeof text);
    if (result == RD_KAFKA_CONF_OK)
        return true;
    if (result == RD_KAFKA_CONF_UNKNOWN)
        return refuse_property(property, "is not known to librdkafka", kHint, why);
    // librdkafka quotes the value here.
    if (!is_shown(property))
        return refuse_property(property, "is invalid", kHint, why);
    std::string reason = "is invalid: ";
    reason += text;
    while (reason.back() == '\n')
        reason.pop_back();
    return refuse_property(property, reason.c_str(), kHint, why);
}

bool
set(rd_kafka_conf_t *config, const char *name, const std::string &value, Failure &why)
{
    return set(config, Property{name, value}, why);
}

bool
set_servers(rd_kafka_conf_t *config, const Settings &settings, Failure &why)
{
    const Verdict verdict = check_bootstrap_servers(settings.bootstrap_servers);
    if (!verdict.ok || settings.bootstrap_servers.empty())
    {
        const char *reason = verdict.ok ? "is empty" : verdict.reason;
        describe_config(why, verdict.hint, "the list of bootstrap servers %s", reason);
        return false;
    }
    return set(config, "bootstrap.servers", std::string(settings.bootstrap_servers), why);
}

// librdkafka takes whole numbers up to INT_MAX; a limit above that is as good as none.
std::string
number(std::size_t value)
{
    return std::to_string(std::min<std::size_t>(value, INT_MAX));
}

std::string
milliseconds(int value)
{
    constexpr int kHour = 3600 * 1000;
    return std::to_string(std::clamp(value, 0, kHour));
}

bool
set_own(rd_kafka_conf_t *config, const Settings &settings, Failure &why)
{
    for (const Default &item : kDefaults)
        if (!set(config, item.name, item.value, why))
            return false;

    // Delivery reports leave librdkafka's count a moment after the caller's, hence the factor.
    const std::size_t messages = 2 * settings.max_messages;
    const std::size_t bytes = std::max(settings.max_bytes, settings.max_record_bytes);
    const std::size_t kilobytes = 2 * (bytes / 1024 + 1);
    const int backoff_max = std::max(settings.backoff_initial_ms, settings.backoff_max_ms);
    return set_servers(config, settings, why) &&
           set(config, "client.id", std::string(settings.client_id), why) &&
           set(config, "reconnect.backoff.ms", milliseconds(settings.backoff_initial_ms), why) &&
           set(config, "reconnect.backoff.max.ms", milliseconds(backoff_max), why) &&
           set(config, "queue.buffering.max.messages", number(messages), why) &&
           set(config, "queue.buffering.max.kbytes", number(kilobytes), why) &&
           // librdkafka warns of this property even when it is false.
           (!settings.gapless || set(config, "enable.gapless.guarantee", "true", why));
}

// librdkafka would read such a text only up to there, and so other than it was checked.
bool
contains_zero(const Property &property) noexcept
{
    return property.name.find('\0') != std::string::npos ||
           property.value.find('\0') != std::string::npos;
}

bool
set_operators(rd_kafka_conf_t *config, const Settings &settings, Secrets &secrets, Failure &why)
{
    for (std::size_t i = 0; i < settings.property_count; i++)
    {
        const Property &property = settings.properties[i];
        if (is_secret(property.name))
            secrets.add(property.value);
        const char *reason = "contains a zero byte";
        const char *hint = "Remove it.";
        if (contains_zero(property) ||
            !property_allowed(property.name, property.value, &reason, &hint))
            return refuse_property(property, reason, hint, why);
        if (!set(config, property, why))
            return false;
    }
    return true;
}

std::string
value_of(const rd_kafka_conf_t *config, const char *name)
{
    char value[64] = "";
    std::size_t size = sizeof value;
    return rd_kafka_conf_get(config, name, value, &size) == RD_KAFKA_CONF_OK ? value : "";
}

// librdkafka would wait for a program to give it a token, for ever, and say nothing of it.
bool
has_source_of_tokens(const rd_kafka_conf_t *config, Failure &why)
{
    const std::string protocol = value_of(config, "security.protocol");
    if (value_of(config, "sasl.mechanisms") != "OAUTHBEARER" || protocol.rfind("sasl", 0) != 0 ||
        value_of(config, "sasl.oauthbearer.method") == "oidc" ||
        value_of(config, "enable.sasl.oauthbearer.unsecure.jwt") == "true")
        return true;
    describe_config(
        why,
        "Set sasl.oauthbearer.method=oidc and what belongs to it, if librdkafka was "
        "built with that; or use another mechanism.",
        "Kafka property \"sasl.mechanisms\" with value \"OAUTHBEARER\" has no source of "
        "tokens");
    return false;
}

} // namespace

ClientConfig
make_client_config(const Settings &settings, Secrets &secrets, Failure &why)
{
    ClientConfig config(rd_kafka_conf_new());
    if (!set_own(config.get(), settings, why) ||
        !set_operators(config.get(), settings, secrets, why) ||
        !has_source_of_tokens(config.get(), why))
        return nullptr;
    // What librdkafka says before it has a queue for logs would go to stderr.
    rd_kafka_conf_set_log_cb(config.get(), nullptr);
    rd_kafka_conf_set_events(config.get(), RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR);
    if (settings.gapless)
        end_connections_of_refusals(config.get());
    return config;
}

} // namespace outbox::kafka
