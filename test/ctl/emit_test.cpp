// emit
#include "ctl.h"

#include "support/consumer.h"

namespace outbox::test
{

namespace
{

class Emit : public CtlTest
{
protected:
    // The only record of this database's topic.
    Record only_record() const
    {
        Consumer consumer(kafka().bootstrap(), {database_.topic()});
        EXPECT_TRUE(consumer.read_count(1, std::chrono::seconds(20)));
        return consumer.records().empty() ? Record() : consumer.records()[0];
    }
};

TEST_F(Emit, EveryOptionReachesKafka)
{
    const std::string id = "019c0e6b-90a7-7a22-8000-5d1f0d4c1c1e";
    const Ran ran = ctl({"emit", database_.type(), "42", "order.paid", R"([1, {"a": "%%"}])",
                         "--id", id, "--key", "k=1", "--schema-version", "3", "-H", "tenant=7",
                         "--header", "trace=[a=b]", "--wait", "20"});
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(ran.out, id + "\n") << "only the id, for scripts";
    EXPECT_NE(ran.err.find("published after"), std::string::npos);
    const Record record = only_record();
    EXPECT_EQ(record.key, "k=1");
    EXPECT_EQ(record.value, R"([1, {"a": "%%"}])");
    EXPECT_EQ(record.header("id"), id);
    EXPECT_EQ(record.header("schema_version"), "3");
    EXPECT_EQ(record.header("tenant"), "7");
    EXPECT_EQ(record.header("trace"), "[a=b]");
}

TEST_F(Emit, BytesFromStandardInputAreSentAsTheyAre)
{
    const std::string bytes("\0\xff\x1b\n", 4);
    const Ran ran =
        ctl({"emit", database_.type(), "1", "x", "--bytes", "--file", "-", "--wait", "20"}, bytes);
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(only_record().value, bytes);
}

TEST_F(Emit, JsonComesFromAFileOrStandardInput)
{
    const std::string file = run_dir() / unique_name("payload");
    write_file(file, "{\"from\": \"file\"}\n");
    EXPECT_EQ(ctl({"emit", database_.type(), "1", "x", "-f", file}).status, 0);
    EXPECT_EQ(ctl({"emit", database_.type(), "1", "x", "-"}, "{\"from\": \"stdin\"}").status, 0);
    EXPECT_EQ(db_.column("select payload->>'from' from outbox.events order by seq"),
              (Words{"file", "stdin"}));
}

TEST_F(Emit, ATombstoneHasNoPayload)
{
    EXPECT_EQ(ctl({"emit", database_.type(), "1", "x", "--tombstone", "--wait", "20"}).status, 0);
    EXPECT_EQ(only_record().value, std::nullopt);
}

TEST_F(Emit, JsonSaysWhetherItIsPublished)
{
    const Json json =
        ctl({"emit", database_.type(), "1", "x", "{}", "--wait", "20", "--json"}).json();
    EXPECT_EQ(json["published"], true);
    EXPECT_GE(json["seconds"], 0.0);
    EXPECT_EQ(json["id"], db_.value("select id from outbox.events"));
    EXPECT_EQ(ctl({"emit", database_.type(), "1", "x", "{}", "--json"}).json().size(), 1U);
}

TEST_F(Emit, NotPublishedInTimeExitsWithFour)
{
    db_.exec("select outbox.pause()");
    EXPECT_TRUE(database_.reaches_state("paused"));
    const Ran ran = ctl({"emit", database_.type(), "1", "x", "{}", "--wait", "200ms", "--json"});
    EXPECT_EQ(ran.status, 4) << ran.err;
    EXPECT_EQ(ran.json()["published"], false);
    EXPECT_EQ(db_.value("select count(*) from outbox.events"), "1") << "it is kept";
}

TEST_F(Emit, WaitingForAnEventThatKafkaRefusesSaysWhy)
{
    db_.exec("alter database " + database_.name() + " set outbox.max_attempts = 1");
    db_.exec("select pg_reload_conf()");
    broker().command("fail Produce MSG_SIZE_TOO_LARGE 2");
    const Ran ran = ctl({"emit", database_.type(), "1", "x", "{}", "--wait", "20"});
    broker().command("clear Produce");
    EXPECT_EQ(ran.status, 1) << ran.out << ran.err;
    EXPECT_NE(ran.err.find("MSG_SIZE_TOO_LARGE"), std::string::npos) << ran.err;
}

TEST_F(Emit, WhatTheServerRefusesIsToldWithItsHintAndChangesNothing)
{
    struct Case
    {
        Words arguments;
        int status;
        std::string text;
    };
    const std::vector<Case> cases = {
        {{"emit", "[a b]", "1", "x", "{}"}, 1, "Hint: A Kafka topic name has"},
        {{"emit", "a", "1", "x", "{x"}, 1, "(22P02)"},
        {{"emit", "a", "", "x", "{}"}, 1, "(22023)"},
        {{"emit", "a", "1", "x", "{}", "-H", "id=1"}, 1, "reserved"},
        {{"emit", "a", "1", "x", "{}", "-H", "a"}, 2, "NAME=VALUE"},
        {{"emit", "a", "1", "x", "{}", "-H", "a=1", "-H", "a=2"}, 2, "twice"},
        {{"emit", "a", "1", "x", "{}", "--id", "7"}, 1, "uuid"},
        {{"emit", "a", "1", "x"}, 2, "there is no payload"},
        {{"emit", "a", "1", "x", "--file", "/nowhere"}, 1, "No such file"},
        {{"emit", "a", "1", "x", "{}", "-H", "a=\xff"}, 2, "the value is not UTF-8"},
        {{"emit", "a", "1", "x", "{}", "-H", "\xc3=1"}, 2, "is not UTF-8"},
        {{"emit", "a", "\xed\xa0\x80", "x", "{}"}, 2, "is not UTF-8"},
        {{"emit", "a", "1", "x", "{}", "-k", "\xff"}, 2, "is not UTF-8"},
        {{"emit", "a", "1", "x", "\"\xff\""}, 1, "is not UTF-8, so it is not JSON"},
        {{"emit", "a", "1", "x", "{}", "--schema-version", "99999999999999999999"}, 2, "schema"},
    };
    for (const Case &item : cases)
    {
        const Ran ran = ctl(item.arguments);
        EXPECT_EQ(ran.status, item.status) << item.text << ran.err;
        EXPECT_NE(ran.err.find(item.text), std::string::npos) << ran.err;
        EXPECT_EQ(ran.out, "");
    }
    EXPECT_EQ(ctl({"emit", "a", "1", "x", "-"}, std::string("\"a\0b\"", 5)).status, 1);
    EXPECT_EQ(db_.value("select count(*) from outbox.events"), "0");
}

} // namespace

} // namespace outbox::test
