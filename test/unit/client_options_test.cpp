// The client library: options of a consumer that are refused, before anything is connected to.
#include <functional>

#include <gtest/gtest.h>

#include "client/src/kafka_config.h"
#include "outbox/consumer.h"
#include "outbox/emit.h"
#include "outbox/error.h"

namespace
{

using outbox::v0::ConsumerOptions;
using Change = std::function<void(ConsumerOptions &)>;

void
do_nothing(PGconn * /*transaction*/, const outbox::v0::Record & /*record*/)
{
}

// What the constructor says of options with this change; empty if it takes them.
std::string
refusal(const Change &change)
{
    ConsumerOptions options;
    options.consumer = "billing";
    options.bootstrap_servers = "127.0.0.1:1";
    options.topics = {"orders"};
    change(options);
    try
    {
        const outbox::v0::Consumer consumer(options, &do_nothing);
    }
    catch (const outbox::v0::UsageError &error)
    {
        EXPECT_EQ(error.code(), "22023");
        return error.what();
    }
    return "";
}

std::string
property_refusal(const std::string &name, const std::string &value)
{
    return refusal([&](ConsumerOptions &options) { options.kafka_config[name] = value; });
}

class ExternalStore : public outbox::v0::DedupStore
{
public:
    bool transactional() const noexcept override { return false; }
    outbox::v0::Claim claim(PGconn *, const std::string &, const std::string &) override
    {
        return outbox::v0::Claim::first;
    }
};

} // namespace

TEST(ClientOptions, ThoseOfTheExampleAreTaken)
{
    EXPECT_EQ(refusal([](ConsumerOptions &) {}), "");
}

TEST(ClientOptions, WhatIsMissingOrOutOfItsRangeIsNamed)
{
    const std::vector<std::pair<std::string, Change>> cases = {
        {"consumer", [](ConsumerOptions &o) { o.consumer = ""; }},
        {"consumer", [](ConsumerOptions &o) { o.consumer = std::string("a\0", 2); }},
        {"bootstrap_servers", [](ConsumerOptions &o) { o.bootstrap_servers = ""; }},
        {"topics", [](ConsumerOptions &o) { o.topics = {}; }},
        {"a topic", [](ConsumerOptions &o) { o.topics = {""}; }},
        {"not patterns", [](ConsumerOptions &o) { o.topics = {"^orders.*"}; }},
        {"come back",
         [](ConsumerOptions &o) {
             o.topics = {"orders", "orders.dlq"};
         }},
        {"dead_letter_suffix", [](ConsumerOptions &o) { o.dead_letter_suffix = ""; }},
        {"batch", [](ConsumerOptions &o) { o.batch = 0; }},
        {"batch", [](ConsumerOptions &o) { o.batch = 10001; }},
        {"max_attempts", [](ConsumerOptions &o) { o.max_attempts = 0; }},
        {"backoff_initial", [](ConsumerOptions &o) { o.backoff_initial = {}; }},
        {"backoff_max", [](ConsumerOptions &o) { o.backoff_max = o.backoff_initial / 2; }},
        {"dead_letter_timeout", [](ConsumerOptions &o) { o.dead_letter_timeout = {}; }},
        {"commit_interval", [](ConsumerOptions &o) { o.commit_interval = std::chrono::hours(2); }},
        {"close_timeout", [](ConsumerOptions &o) { o.close_timeout = {}; }},
    };
    for (const auto &[name, change] : cases)
        EXPECT_NE(refusal(change).find(name), std::string::npos) << name << ": " << refusal(change);
}

TEST(ClientOptions, PropertiesThatBreakAPromiseAreRefusedWithTheReason)
{
    const std::vector<std::pair<std::string, std::string>> broken = {
        {"enable.auto.commit", "true"},
        {"enable.auto.offset.store", "TRUE"},
        {"isolation.level", "read_uncommitted"},
        {"auto.offset.reset", "latest"},
        {"acks", "1"},
        {"enable.idempotence", "false"},
        {"group.id", "other"},
        {"bootstrap.servers", "elsewhere:9092"},
        {"transactional.id", "t"},
        {"message.timeout.ms", "1"},
        {"delivery.report.only.error", "true"},
        {"enable.partition.eof", "true"},
        {"log.queue", "false"},
        {"no.such.property", "1"},
        {"session.timeout.ms", "many"},
        {std::string("client.id\0", 10), "x"},
    };
    for (const auto &[name, value] : broken)
        EXPECT_NE(property_refusal(name, value).find(std::string("\"") + name.c_str() + "\""),
                  std::string::npos)
            << name;
    for (const auto &[name, value] :
         std::vector<std::pair<std::string, std::string>>{{"enable.auto.commit", "false"},
                                                          {"isolation.level", "read_committed"},
                                                          {"auto.offset.reset", "earliest"},
                                                          {"acks", "all"},
                                                          {"client.id", "me"},
                                                          {"max.poll.interval.ms", "600000"},
                                                          {"fetch.wait.max.ms", "10"}})
        EXPECT_EQ(property_refusal(name, value), "");
}

TEST(ClientOptions, NoMessageHasASecret)
{
    for (const char *name : {"sasl.password", "ssl.key.password", "sasl.oauthbearer.client.secret"})
    {
        const std::string said = property_refusal(name, std::string("hunter2\0", 8));
        EXPECT_NE(said, "");
        EXPECT_EQ(said.find("hunter2"), std::string::npos) << said;
    }
    const std::string said =
        refusal([](ConsumerOptions &o) { o.conninfo = "host=x password='hunter2 dbname=y"; });
    EXPECT_NE(said, "");
    EXPECT_EQ(said.find("hunter2"), std::string::npos) << said;
}

TEST(ClientOptions, WhatOnlyATransactionCanDoNeedsATransactionalStore)
{
    const auto external = [](ConsumerOptions &o) { o.store = std::make_shared<ExternalStore>(); };
    EXPECT_EQ(refusal(external), "");
    for (const Change &change :
         {Change([](ConsumerOptions &o) { o.batch = 2; }),
          Change([](ConsumerOptions &o) { o.conninfo = "dbname=x"; }),
          Change([](ConsumerOptions &o) { o.offsets = outbox::v0::OffsetPolicy::postgres; })})
        EXPECT_NE(refusal(
                      [&](ConsumerOptions &o)
                      {
                          external(o);
                          change(o);
                      }),
                  "");
}

TEST(ClientOptions, OffsetsInPostgresNeedEagerRebalancingAndNoReset)
{
    const auto with = [](const std::string &name, const std::string &value)
    {
        return refusal(
            [&](ConsumerOptions &o)
            {
                o.offsets = outbox::v0::OffsetPolicy::postgres;
                o.kafka_config[name] = value;
            });
    };
    EXPECT_NE(with("partition.assignment.strategy", "cooperative-sticky"), "");
    EXPECT_EQ(with("partition.assignment.strategy", "roundrobin"), "");
    EXPECT_NE(with("auto.offset.reset", "earliest"), "");
    EXPECT_EQ(with("auto.offset.reset", "error"), "");
}

TEST(ClientErrors, TellWhatToDoByTheirCode)
{
    EXPECT_TRUE(outbox::v0::DatabaseError("", "08006").connection_lost());
    EXPECT_TRUE(outbox::v0::DatabaseError("", "57P01").connection_lost());
    EXPECT_FALSE(outbox::v0::DatabaseError("", "57014").connection_lost());
    EXPECT_TRUE(outbox::v0::DatabaseError("", "40001").transient());
    EXPECT_TRUE(outbox::v0::DatabaseError("", "40P01").transient());
    EXPECT_FALSE(outbox::v0::DatabaseError("", "23505").transient());
    const outbox::v0::DeadLetterError error("text", "MSG_SIZE_TOO_LARGE", "t", 1, 2);
    EXPECT_EQ(static_cast<const outbox::v0::Error &>(error).code(), "MSG_SIZE_TOO_LARGE");
}

TEST(ClientErrors, NoConnectionIsAnErrorAndNoCrash)
{
    EXPECT_THROW(outbox::v0::emit(nullptr, {}), outbox::v0::UsageError);
    EXPECT_THROW(outbox::v0::emit_many(nullptr, {}), outbox::v0::UsageError);
}

// They would pile up between two letters.
TEST(ClientOptions, TheClientOfDeadLettersMakesNoStatistics)
{
    namespace detail = outbox::v0::detail;
    const detail::KafkaConfig config = detail::make_dead_letter_config(
        "127.0.0.1:1", 1000, {{"statistics.interval.ms", "10"}, {"linger.ms", "7"}});
    const auto value = [&](const char *name)
    {
        char text[64] = "";
        size_t size = sizeof text;
        EXPECT_EQ(rd_kafka_conf_get(config.get(), name, text, &size), RD_KAFKA_CONF_OK);
        return std::string(text);
    };
    EXPECT_EQ(value("statistics.interval.ms"), "0");
    EXPECT_EQ(value("linger.ms"), "7");
}
