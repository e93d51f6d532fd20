#include "kafka_properties.h"

#include "characters.h"
#include "kafka_property_names.h"

#include <algorithm>
#include <iterator>

namespace outbox
{

namespace
{

bool
same_letters(char a, char b) noexcept
{
    return to_lower(a) == to_lower(b);
}

bool
equals_ignoring_case(std::string_view a, std::string_view b) noexcept
{
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_letters);
}

bool
contains_ignoring_case(std::string_view text, std::string_view word) noexcept
{
    return std::search(text.begin(), text.end(), word.begin(), word.end(), same_letters) !=
           text.end();
}

bool
starts_with(std::string_view text, std::string_view prefix) noexcept
{
    return text.substr(0, prefix.size()) == prefix;
}

bool
ends_with(std::string_view text, std::string_view suffix) noexcept
{
    return text.size() >= suffix.size() && text.substr(text.size() - suffix.size()) == suffix;
}

bool
never(std::string_view) noexcept
{
    return false;
}

bool
means_all_replicas(std::string_view value) noexcept
{
    return value == "-1" || equals_ignoring_case(value, "all");
}

bool
means_true(std::string_view value) noexcept
{
    return value == "1" || equals_ignoring_case(value, "t") || equals_ignoring_case(value, "true");
}

bool
means_false(std::string_view value) noexcept
{
    return value == "0" || equals_ignoring_case(value, "f") || equals_ignoring_case(value, "false");
}

bool
is_zero(std::string_view value) noexcept
{
    return value == "0";
}

bool
is_one_to_five(std::string_view value) noexcept
{
    return value.size() == 1 && value[0] >= '1' && value[0] <= '5';
}

bool
is_largest_integer(std::string_view value) noexcept
{
    return value == "2147483647";
}

bool
is_java_partitioner(std::string_view value) noexcept
{
    return value == "murmur2_random" || value == "murmur2";
}

bool
is_fifo(std::string_view value) noexcept
{
    return value == "fifo";
}

// The default of sasl.kerberos.kinit.cmd puts these into a command of the shell.
bool
is_plain_word(std::string_view value) noexcept
{
    static constexpr std::string_view kOthers = "._/@:+-";
    return !value.empty() && value.front() != '-' &&
           std::all_of(value.begin(), value.end(),
                       [](char c)
                       {
                           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                                  (c >= '0' && c <= '9') ||
                                  kOthers.find(c) != std::string_view::npos;
                       });
}

// Those that come with OpenSSL; it would look for any other one as a file.
bool
are_own_providers(std::string_view value) noexcept
{
    constexpr std::string_view kProviders[] = {"default", "base", "fips", "legacy", "null"};
    for (;;)
    {
        const std::size_t comma = value.find(',');
        std::string_view one = value.substr(0, comma);
        while (!one.empty() && one.front() == ' ')
            one.remove_prefix(1);
        if (std::find(std::begin(kProviders), std::end(kProviders), one) == std::end(kProviders))
            return false;
        if (comma == std::string_view::npos)
            return true;
        value.remove_prefix(comma + 1);
    }
}

bool
is_web_address(std::string_view value) noexcept
{
    return starts_with(value, "https://") || starts_with(value, "http://");
}

// A property that is refused unless its value passes `allowed`.
struct Rule
{
    std::string_view name;
    bool (*allowed)(std::string_view value) noexcept;
    const char *reason;
    const char *hint;
};

constexpr const char *kAcksReason = "would lose events when a broker fails";
constexpr const char *kAcksHint = "Remove it; outbox always publishes with acks=all.";
constexpr const char *kServersReason = "has a setting of its own";
constexpr const char *kServersHint = "Set outbox.bootstrap_servers instead.";
constexpr const char *kInFlightReason = "would let events of a key overtake each other";
constexpr const char *kInFlightHint = "Remove it; the relay has one request to a broker under way.";
constexpr const char *kTimeoutReason =
    "would make the Kafka client drop events that the relay has to keep in order";
constexpr const char *kTimeoutHint =
    "Remove it; see outbox.backoff_initial and outbox.backoff_max for how the relay retries.";
constexpr const char *kOwnReason = "is set by the relay itself";
constexpr const char *kRemoveHint = "Remove it.";
constexpr const char *kProgramReason = "can only be set by a program";
constexpr const char *kJavaReason = "belongs to Kafka's Java client, not to librdkafka";
constexpr const char *kCodeReason = "would load foreign code into the database server";
constexpr const char *kShellReason = "would become part of a command of the shell";
constexpr const char *kShellHint = "Use letters, digits and . _ / @ : + - only.";
constexpr const char *kTrustHint =
    "Set ssl.ca.location to a file with the PEM certificates of the authorities to trust.";

constexpr Rule kRules[] = {
    {"bootstrap.servers", never, kServersReason, kServersHint},
    {"metadata.broker.list", never, kServersReason, kServersHint},
    {"acks", means_all_replicas, kAcksReason, kAcksHint},
    {"request.required.acks", means_all_replicas, kAcksReason, kAcksHint},
    {"enable.idempotence", means_true, "would let a retry repeat or reorder events",
     "Remove it; outbox always publishes with enable.idempotence=true."},
    {"enable.gapless.guarantee", never, kOwnReason, kRemoveHint},
    {"transactional.id", never, kOwnReason, kRemoveHint},
    {"max.in.flight", is_one_to_five, kInFlightReason, kInFlightHint},
    {"max.in.flight.requests.per.connection", is_one_to_five, kInFlightReason, kInFlightHint},
    {"queuing.strategy", is_fifo, "would let events of a key overtake each other", kRemoveHint},
    {"retries", is_largest_integer, kTimeoutReason, kTimeoutHint},
    {"message.send.max.retries", is_largest_integer, kTimeoutReason, kTimeoutHint},
    {"message.timeout.ms", is_zero, kTimeoutReason, kTimeoutHint},
    {"delivery.timeout.ms", is_zero, kTimeoutReason, kTimeoutHint},
    {"partitioner", is_java_partitioner,
     "would send a key to another partition than Kafka's Java clients do",
     "Use murmur2_random (the default) or murmur2."},
    {"delivery.report.only.error", means_false, "would hide from the relay what was delivered",
     kRemoveHint},
    {"api.version.request", means_true, "would switch off record headers and idempotence",
     kRemoveHint},
    {"enabled_events", never, kOwnReason, kRemoveHint},
    {"topic.blacklist", never, "would keep events from their topics without a word", kRemoveHint},
    {"log.queue", never, kOwnReason, kRemoveHint},
    {"internal.termination.signal", is_zero, "would send signals inside the database server",
     kRemoveHint},
    {"enable_sasl_queue", never, kOwnReason, kRemoveHint},
    {"plugin.library.paths", never, kCodeReason, kRemoveHint},
    {"ssl.engine.location", never, kCodeReason, kRemoveHint},
    {"ssl.engine.id", never, kCodeReason, kRemoveHint},
    {"ssl.providers", are_own_providers, kCodeReason,
     "Use those of OpenSSL: default, base, fips, legacy, null."},
    {"sasl.kerberos.kinit.cmd", never, "would run a command in the database server",
     "Set sasl.kerberos.keytab and sasl.kerberos.principal; or renew the ticket outside of the "
     "server, and set sasl.kerberos.min.time.before.relogin=0."},
    {"sasl.kerberos.keytab", is_plain_word, kShellReason, kShellHint},
    {"sasl.kerberos.principal", is_plain_word, kShellReason, kShellHint},
    {"sasl.kerberos.service.name", is_plain_word, kShellReason, kShellHint},
    {"sasl.oauthbearer.token.endpoint.url", is_web_address, "is no address of the web",
     "Use an address that begins with https://."},
    {"offset.store.path", never, "would write a file in the database server", kRemoveHint},

    {"opaque", never, kProgramReason, kRemoveHint},
    {"default_topic_conf", never, kProgramReason, kRemoveHint},
    {"interceptors", never, kProgramReason, kRemoveHint},
    {"msg_order_cmp", never, kProgramReason, kRemoveHint},
    {"ssl_engine_callback_data", never, kProgramReason, kRemoveHint},
    {"ssl_key", never, kProgramReason, "Use ssl.key.location or ssl.key.pem."},
    {"ssl_certificate", never, kProgramReason,
     "Use ssl.certificate.location or ssl.certificate.pem."},
    {"ssl_ca", never, kProgramReason, "Use ssl.ca.location or ssl.ca.pem."},

    {"key.serializer", never, kJavaReason, kRemoveHint},
    {"value.serializer", never, kJavaReason, kRemoveHint},
    {"sasl.jaas.config", never, kJavaReason, "Set sasl.username and sasl.password."},
    {"ssl.truststore.location", never, kJavaReason, kTrustHint},
    {"ssl.truststore.password", never, kJavaReason, kTrustHint},
    {"ssl.truststore.type", never, kJavaReason, kTrustHint},
    {"ssl.truststore.certificates", never, kJavaReason, kTrustHint},
    {"max.request.size", never, kJavaReason, "Set message.max.bytes."},
    {"buffer.memory", never, kJavaReason, "Set queue.buffering.max.kbytes."},
    {"partitioner.class", never, kJavaReason, "Set partitioner to murmur2_random or murmur2."},
};

// Families of properties, by the start or the end of their names; none of them has an allowed
// value.
bool
family_allowed(std::string_view name, const char **reason, const char **hint) noexcept
{
    *hint = kRemoveHint;
    if (starts_with(name, "test.mock."))
    {
        *reason = "would replace Kafka by a broker in memory";
        return false;
    }
    if (ends_with(name, "_cb") || starts_with(name, "ut_"))
    {
        *reason = kProgramReason;
        return false;
    }
    return true;
}

} // namespace

bool
property_allowed(std::string_view name, std::string_view value, const char **reason,
                 const char **hint) noexcept
{
    // librdkafka takes a topic property also with this prefix; others really begin with it.
    constexpr std::string_view kTopicPrefix = "topic.";
    if (starts_with(name, kTopicPrefix) && !property_is_known(name))
        name.remove_prefix(kTopicPrefix.size());

    for (const Rule &rule : kRules)
    {
        if (name != rule.name || rule.allowed(value))
            continue;
        *reason = rule.reason;
        *hint = rule.hint;
        return false;
    }
    if (!family_allowed(name, reason, hint))
        return false;
    *reason = "is not a property of librdkafka that this version of outbox knows";
    *hint = "Check the name; \"make check\" of outbox says what a newer librdkafka has.";
    return property_is_known(name);
}

bool
is_secret(std::string_view name) noexcept
{
    constexpr std::string_view kWords[] = {
        "pass",  "secret", "key.pem", "keystore.key", "ssl_key",    "private",
        "token", "jaas",   "jwt",     "credential",   "access.key", "oauthbearer.config"};
    return std::any_of(std::begin(kWords), std::end(kWords),
                       [name](std::string_view word)
                       { return contains_ignoring_case(name, word); });
}

} // namespace outbox
