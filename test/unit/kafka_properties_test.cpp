#include "extension/core/bootstrap_servers.h"
#include "extension/core/kafka_properties.h"
#include "extension/core/kafka_property_names.h"

#include <gtest/gtest.h>
#include <librdkafka/rdkafka.h>

#include <string>
#include <vector>

namespace outbox::test
{

namespace
{

bool
allowed(std::string_view name, std::string_view value)
{
    const char *reason = nullptr;
    const char *hint = nullptr;
    const bool result = property_allowed(name, value, &reason, &hint);
    if (!result)
    {
        EXPECT_NE(reason, nullptr) << name;
        EXPECT_NE(hint, nullptr) << name;
    }
    return result;
}

TEST(PropertyAllowed, LeavesTuningAndSecurityToTheOperator)
{
    EXPECT_TRUE(allowed("linger.ms", "5"));
    EXPECT_TRUE(allowed("compression.type", "zstd"));
    EXPECT_TRUE(allowed("security.protocol", "SASL_SSL"));
    EXPECT_TRUE(allowed("sasl.password", "sesame"));
    EXPECT_TRUE(allowed("ssl.ca.location", "/etc/ca.pem"));
    EXPECT_TRUE(allowed("queue.buffering.max.messages", "1"));
    EXPECT_TRUE(allowed("topic.metadata.refresh.interval.ms", "1000"));
    EXPECT_TRUE(allowed("topic.compression.type", "zstd"));
    EXPECT_TRUE(allowed("ssl.providers", "default, legacy"));
    EXPECT_TRUE(allowed("sasl.kerberos.keytab", "/etc/kafka/outbox-1.keytab"));
    EXPECT_TRUE(allowed("sasl.kerberos.principal", "outbox/db.example.org@EXAMPLE.ORG"));
    EXPECT_TRUE(allowed("sasl.oauthbearer.token.endpoint.url", "https://id.example.org/token"));
}

TEST(PropertyAllowed, HoldsTheLevelOfAcknowledgement)
{
    for (const char *name : {"acks", "request.required.acks", "topic.acks"})
    {
        for (const char *value : {"all", "ALL", "-1"})
            EXPECT_TRUE(allowed(name, value)) << name << value;
        for (const char *value : {"0", "1", "2", "", "-1 ", "0x1", "al", "allo"})
            EXPECT_FALSE(allowed(name, value)) << name << value;
    }
}

TEST(PropertyAllowed, HoldsIdempotenceAndOrder)
{
    for (const char *value : {"true", "True", "t", "1"})
        EXPECT_TRUE(allowed("enable.idempotence", value)) << value;
    for (const char *value : {"false", "False", "f", "0", "", "no"})
        EXPECT_FALSE(allowed("enable.idempotence", value)) << value;
    for (const char *name : {"max.in.flight", "max.in.flight.requests.per.connection"})
    {
        EXPECT_TRUE(allowed(name, "1"));
        EXPECT_TRUE(allowed(name, "5"));
        for (const char *value : {"0", "6", "50", "", "5 ", "0x5"})
            EXPECT_FALSE(allowed(name, value)) << value;
    }
    EXPECT_TRUE(allowed("queuing.strategy", "fifo"));
    EXPECT_FALSE(allowed("queuing.strategy", "lifo"));
}

TEST(PropertyAllowed, LeavesRetryingToTheRelay)
{
    for (const char *name : {"message.timeout.ms", "delivery.timeout.ms"})
    {
        EXPECT_TRUE(allowed(name, "0"));
        EXPECT_FALSE(allowed(name, "300000"));
    }
    for (const char *name : {"retries", "message.send.max.retries"})
    {
        EXPECT_TRUE(allowed(name, "2147483647"));
        EXPECT_FALSE(allowed(name, "3"));
    }
}

TEST(PropertyAllowed, KeepsTheJavaPartitions)
{
    EXPECT_TRUE(allowed("partitioner", "murmur2_random"));
    EXPECT_TRUE(allowed("partitioner", "murmur2"));
    for (const char *value : {"consistent_random", "random", "fnv1a", "", "MURMUR2"})
        EXPECT_FALSE(allowed("partitioner", value)) << value;
}

TEST(PropertyAllowed, RefusesWhatTheRelayOwns)
{
    for (const char *name :
         {"bootstrap.servers", "metadata.broker.list", "transactional.id", "log.queue",
          "enable.gapless.guarantee", "enabled_events", "topic.blacklist", "plugin.library.paths",
          "opaque", "dr_cb", "error_cb", "ssl.certificate.verify_cb", "default_topic_conf",
          "ssl_key", "test.mock.num.brokers", "ut_handle_ProduceResponse", "sasl.jaas.config",
          "key.serializer", "buffer.memory"})
        EXPECT_FALSE(allowed(name, "true")) << name;
    EXPECT_FALSE(allowed("delivery.report.only.error", "true"));
    EXPECT_TRUE(allowed("delivery.report.only.error", "false"));
    EXPECT_FALSE(allowed("api.version.request", "false"));
    EXPECT_FALSE(allowed("internal.termination.signal", "29"));
}

// Loading code, running commands, writing files: with the rights of the server's process.
TEST(PropertyAllowed, RefusesWhatReachesBeyondKafka)
{
    for (const char *name :
         {"plugin.library.paths", "ssl.engine.location", "ssl.engine.id", "sasl.kerberos.kinit.cmd",
          "offset.store.path", "topic.offset.store.path", "open_cb", "socket_cb"})
        for (const char *value : {"", "x", "/tmp/x.so", "true"})
            EXPECT_FALSE(allowed(name, value)) << name << value;
    for (const char *name : {"sasl.kerberos.keytab", "sasl.kerberos.principal"})
        for (const char *value : {"", "x\"; touch /tmp/x; \"", "$(id)", "`id`", "a b", "-k", "a\n",
                                  "%{sasl.password}", "a;b", "a|b", "a&b", "a\\b"})
            EXPECT_FALSE(allowed(name, value)) << name << value;
    for (const char *value : {"", "/tmp/evil", "default,../evil", "default,,legacy", "evil"})
        EXPECT_FALSE(allowed("ssl.providers", value)) << value;
    for (const char *value : {"", "file:///etc/passwd", "ftp://x", "x", " https://x"})
        EXPECT_FALSE(allowed("sasl.oauthbearer.token.endpoint.url", value)) << value;
}

// A property that is new in librdkafka is to be looked at, and to be added to the known ones, with
// a rule when it is dangerous.
TEST(PropertyAllowed, KnowsAllPropertiesOfTheInstalledLibrary)
{
    std::vector<std::string> names;
    const auto add = [&names](const char **pairs, std::size_t count)
    {
        for (std::size_t i = 0; i < count; i += 2)
            names.emplace_back(pairs[i]);
        rd_kafka_conf_dump_free(pairs, count);
    };
    std::size_t count = 0;
    rd_kafka_conf_t *config = rd_kafka_conf_new();
    const char **pairs = rd_kafka_conf_dump(config, &count);
    add(pairs, count);
    rd_kafka_conf_destroy(config);
    rd_kafka_topic_conf_t *topic = rd_kafka_topic_conf_new();
    pairs = rd_kafka_topic_conf_dump(topic, &count);
    add(pairs, count);
    rd_kafka_topic_conf_destroy(topic);
    EXPECT_GT(names.size(), 100U);
    for (const std::string &name : names)
    {
        const bool is_for_programs = name.size() > 3 && name.substr(name.size() - 3) == "_cb";
        const bool is_for_tests = name.substr(0, 10) == "test.mock." || name.substr(0, 3) == "ut_";
        EXPECT_TRUE(is_for_programs || is_for_tests || property_is_known(name)) << name;
    }
}

TEST(PropertyAllowed, RefusesWhatNobodyHasLookedAt)
{
    for (const char *name : {"", "no.such.property", "topic.no.such.property", "Acks", "acks ",
                             "topic.", "topic.topic.acks"})
        EXPECT_FALSE(allowed(name, "all")) << name;
}

TEST(IsSecret, CoversWhatCarriesCredentials)
{
    for (const char *name :
         {"sasl.password", "ssl.key.password", "ssl.key.pem", "ssl_key", "ssl.keystore.password",
          "sasl.oauthbearer.client.secret", "sasl.oauthbearer.config", "sasl.jaas.config",
          "SASL.PASSWORD", "sasl.oauthbearer.assertion.private.key.passphrase", "ssl.keystore.key"})
        EXPECT_TRUE(is_secret(name)) << name;
    for (const char *name : {"acks", "ssl.ca.pem", "ssl.certificate.pem", "sasl.username",
                             "ssl.key.location", "partitioner", "message.timeout.ms", ""})
        EXPECT_FALSE(is_secret(name)) << name;
}

TEST(BootstrapServers, TakesHostsAndPorts)
{
    for (const char *text :
         {"", "kafka", "kafka:9092", "a:1,b:65535", "a:1, b:2,  c", "10.0.0.1:9092",
          "my_host-1.example.org:9092", "[::1]", "[::1]:9092", "[fe80::1%eth0]:9092,a"})
    {
        const Verdict verdict = check_bootstrap_servers(text);
        EXPECT_TRUE(verdict.ok) << text << ": " << verdict.reason;
    }
}

TEST(BootstrapServers, TellsWhichEntryIsWrong)
{
    const std::pair<const char *, const char *> cases[] = {
        {" ", "has an empty entry (entry 1)"},
        {"a,", "has an empty entry (entry 2)"},
        {"a,,b", "has an empty entry (entry 2)"},
        {",", "has an empty entry (entry 1)"},
        {"PLAINTEXT://a:9092", "has an entry that starts with a protocol (entry 1)"},
        {":9092", "has an entry without a host (entry 1)"},
        {"a:", "has a port that is not a number from 1 to 65535 (entry 1)"},
        {"a:0", "has a port that is not a number from 1 to 65535 (entry 1)"},
        {"a:65536", "has a port that is not a number from 1 to 65535 (entry 1)"},
        {"a:100000", "has a port that is not a number from 1 to 65535 (entry 1)"},
        {"a:90x", "has a port that is not a number from 1 to 65535 (entry 1)"},
        {"a:9092 ", "has a port that is not a number from 1 to 65535 (entry 1)"},
        {"a b:9092", "has an entry that is not a host name (entry 1)"},
        {"a;b", "has an entry that is not a host name (entry 1)"},
        {"a:1,b ,c", "has an entry that is not a host name (entry 2)"},
        {"::1", "has more than one \":\" outside of brackets (entry 1)"},
        {"[::1", "has a \"[\" without a \"]\" (entry 1)"},
        {"[abc]:1", "has brackets around something that is not an IPv6 address (entry 1)"},
        {"[]", "has brackets around something that is not an IPv6 address (entry 1)"},
        {"[::1]9092", "has a port that is not a number from 1 to 65535 (entry 1)"},
    };
    for (const auto &[text, reason] : cases)
    {
        const Verdict verdict = check_bootstrap_servers(text);
        EXPECT_FALSE(verdict.ok) << text;
        EXPECT_STREQ(verdict.reason, reason) << text;
    }
}

} // namespace

} // namespace outbox::test
