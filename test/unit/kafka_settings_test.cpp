#include "extension/core/secrets.h"
#include "kafka_mock_cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

namespace outbox::test
{

namespace
{

using kafka::Producer;
using kafka::Settings;
using testing::HasSubstr;
using testing::Not;

constexpr const char *kSecret = "hunter2-hunter2";

// Creates a producer that must not come into being and returns the reason.
Failure
refusal(const std::vector<Property> &properties, const std::string &bootstrap = "127.0.0.1:1",
        int wake_fd = -1)
{
    Settings settings = test_settings(bootstrap);
    settings.properties = properties.data();
    settings.property_count = properties.size();
    Failure why;
    // As the relay asks for one, again and again; and without what that adds.
    for (const bool gapless : {true, true, false})
    {
        settings.gapless = gapless;
        const std::unique_ptr<Producer> producer(Producer::create(settings, wake_fd, why));
        EXPECT_EQ(producer, nullptr);
        EXPECT_STREQ(name_of(why.cls), "config");
    }
    return why;
}

TEST(KafkaSettings, PropertyThatBreaksAPromiseIsRefused)
{
    const std::vector<Property> refused = {
        {"acks", "1"},
        {"request.required.acks", "0"},
        {"enable.idempotence", "false"},
        {"enable.gapless.guarantee", "true"},
        {"transactional.id", "mine"},
        {"partitioner", "consistent_random"},
        {"message.timeout.ms", "1000"},
        {"delivery.timeout.ms", "300000"},
        {"retries", "3"},
        {"max.in.flight", "6"},
        {"max.in.flight.requests.per.connection", "1000"},
        {"queuing.strategy", "lifo"},
        {"delivery.report.only.error", "true"},
        {"bootstrap.servers", "elsewhere:9092"},
        {"metadata.broker.list", "elsewhere:9092"},
        {"log.queue", "false"},
        {"enabled_events", "1"},
        {"log_cb", "x"},
        {"dr_msg_cb", "x"},
        {"partitioner_cb", "x"},
        {"opaque", "x"},
        {"internal.termination.signal", "10"},
        {"test.mock.num.brokers", "3"},
        {"plugin.library.paths", "x"},
    };
    for (const Property &property : refused)
    {
        const Failure why = refusal({property});
        EXPECT_THAT(why.text, HasSubstr("\"" + property.name + "\"")) << property.name;
        EXPECT_THAT(why.text, HasSubstr("\"" + property.value + "\"")) << property.name;
        EXPECT_STRNE(why.hint, "") << property.name;
    }
}

TEST(KafkaSettings, HarmlessPropertiesAreTaken)
{
    const std::vector<Property> taken = {{"acks", "all"},
                                         {"partitioner", "murmur2"},
                                         {"compression.type", "lz4"},
                                         {"linger.ms", "1.5"},
                                         {"batch.size", "100000"},
                                         {"max.in.flight", "1"},
                                         {"client.id", "mine"},
                                         {"statistics.interval.ms", "10"},
                                         {"topic.metadata.refresh.interval.ms", "1000"}};
    Driver driver(shared_cluster().bootstrap(), taken);
    driver.produce("taken", "k", "v");
    EXPECT_TRUE(driver.serve_until_settled());
    EXPECT_EQ(driver.sink().acked.size(), 1u);
}

TEST(KafkaSettings, UnknownNamesAndBadValuesAreNamed)
{
    EXPECT_THAT(refusal({{"no.such.property", "1"}}).text, HasSubstr("no.such.property"));
    const Failure why = refusal({{"linger.ms", "much"}});
    EXPECT_THAT(why.text, HasSubstr("linger.ms"));
    EXPECT_THAT(why.text, HasSubstr("much"));
    EXPECT_THAT(why.hint, HasSubstr("CONFIGURATION.md"));
    EXPECT_THAT(refusal({{"linger.ms", "99999999"}}).text, HasSubstr("linger.ms"));
    EXPECT_THAT(refusal({{"security.protocol", "carrier_pigeon"}}).text,
                HasSubstr("carrier_pigeon"));
}

TEST(KafkaSettings, AProducerIsMadeOnceTheConfigurationIsUsable)
{
    refusal({{"security.protocol", "ssl"}, {"ssl.ca.location", "/no/such/file"}});
    const std::string bootstrap = "127.0.0.1:1";
    Settings settings = test_settings(bootstrap);
    settings.gapless = true;
    for (int i = 0; i < 2; i++)
    {
        Failure why;
        const std::unique_ptr<Producer> producer(Producer::create(settings, -1, why));
        EXPECT_NE(producer, nullptr) << why.text;
    }
}

TEST(KafkaSettings, PropertiesThatContradictEachOtherAreRefused)
{
    EXPECT_THAT(refusal({{"reconnect.backoff.ms", "5000"}}).text, HasSubstr("reconnect"));
    EXPECT_STRNE(refusal({{"security.protocol", "sasl_ssl"}, {"sasl.mechanisms", "NONSENSE"}}).text,
                 "");
    EXPECT_THAT(refusal({{"security.protocol", "ssl"}, {"ssl.ca.location", "/no/such/file"}}).text,
                HasSubstr("ssl.ca.location"));
}

TEST(KafkaSettings, ZeroByteCannotHideAProperty)
{
    using std::string_literals::operator""s;
    EXPECT_THAT(refusal({{"acks\0.innocent"s, "1"}}).text, HasSubstr("zero byte"));
    EXPECT_THAT(refusal({{"acks", "all\0"s}}).text, HasSubstr("zero byte"));
}

TEST(KafkaSettings, BootstrapServersAreChecked)
{
    EXPECT_THAT(refusal({}, "").text, HasSubstr("bootstrap servers"));
    EXPECT_THAT(refusal({}, "host:notaport").text, HasSubstr("bootstrap servers"));
}

TEST(KafkaSettings, BlockingDescriptorIsRefused)
{
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    EXPECT_THAT(refusal({}, "127.0.0.1:1", ends[0]).text, HasSubstr("non-blocking"));
    close(ends[0]);
    close(ends[1]);
}

TEST(KafkaSettings, SecretsAreInNoText)
{
    for (const char *name : {"sasl.password", "ssl.key.password", "ssl.keystore.password",
                             "ssl.key.pem", "no.such.password"})
    {
        const std::vector<Property> properties = {{name, kSecret},
                                                  {"sasl.mechanisms", "PLAIN"},
                                                  {"security.protocol", "sasl_ssl"},
                                                  {"ssl.ca.location", "/no/such/file"}};
        const Failure why = refusal(properties);
        EXPECT_THAT(why.text, Not(HasSubstr(kSecret))) << name;
        EXPECT_THAT(why.hint, Not(HasSubstr(kSecret))) << name;
    }
    EXPECT_THAT(refusal({{"test.mock.password", kSecret}}).text, HasSubstr("\"***\""));
}

TEST(KafkaSettings, ValuesFromTheFileAreInNoText)
{
    const std::string value = std::string("PLAIN;sasl.password=") + kSecret;
    for (const char *name : {"security.protocol", "sasl.mechanisms", "linger.ms", "acks",
                             "ssl.ca.location", "no.such.property"})
    {
        std::vector<Property> properties = {{"security.protocol", "sasl_ssl"},
                                            {"sasl.username", "u"},
                                            {"sasl.password", "p"},
                                            {name, value, true}};
        const Failure why = refusal(properties);
        EXPECT_STRNE(why.text, "") << name;
        EXPECT_THAT(why.text, Not(HasSubstr(kSecret))) << name;
        EXPECT_THAT(why.hint, Not(HasSubstr(kSecret))) << name;
    }
}

TEST(KafkaSettings, SecretsAreMaskedInLogs)
{
    // The client id is part of every log line; here it is also the password.
    Driver driver("127.0.0.1:1", {{"client.id", std::string("x-") + kSecret},
                                  {"sasl.password", kSecret},
                                  {"debug", "generic,broker,conf"}});
    ASSERT_TRUE(driver.serve_until([&] { return driver.sink().logs.size() > 20; }));
    bool masked = false;
    for (const std::string &line : driver.sink().logs)
    {
        EXPECT_THAT(line, Not(HasSubstr(kSecret)));
        masked = masked || line.find("x-***") != std::string::npos;
    }
    EXPECT_TRUE(masked);
}

TEST(KafkaSettings, SecretsAreMaskedWhereverTheyStand)
{
    Secrets secrets;
    secrets.add("secret");
    secrets.add("abc"); // too short to be told from ordinary text
    secrets.add("four");
    char text[] = "secretsecret a secret, four abc secre";
    secrets.mask(text);
    EXPECT_STREQ(text, "****** a ***, *** abc secre");
}

TEST(KafkaSettings, ASecretThatContainsAnotherIsMaskedAsAWhole)
{
    Secrets secrets;
    for (const char *value : {"pass", "password1", "pass", "word1"})
        secrets.add(value);
    std::string text("password1 \0 password pass", 25);
    secrets.mask(text);
    EXPECT_EQ(text, std::string("*** \0 ***word ***", 17));
}

TEST(KafkaSettings, NothingIsWrittenToStderr)
{
    testing::internal::CaptureStderr();
    {
        Driver driver("127.0.0.1:1", {{"debug", "all"}});
        driver.serve_until([&] { return !driver.sink().troubles.empty(); });
    }
    refusal({{"security.protocol", "ssl"}, {"ssl.ca.location", "/no/such/file"}});
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

} // namespace

} // namespace outbox::test
