// Debezium, as docs/debezium.properties configures it, and the relay publish the same events of
// outbox.events, to topics of their own. Key, value, partition and headers are compared.
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <stdexcept>

#include "e2e/servers.h"
#include "support/consumer.h"
#include "support/debezium.h"
#include "support/tree.h"
#include "support/workspace.h"

namespace outbox::test
{

namespace
{

// Expressions of SQL. What each is about is to be seen in it.
constexpr const char *kPayloads[] = {
    R"('{"a": {"b": [1, {"c": []}, null, true]}, "d": {}}'::jsonb)",
    R"('{"b": 1, "a": 2,"a":3}'::jsonb)",
    R"('"text alone"'::jsonb)",
    R"('12'::jsonb)",
    R"('null'::jsonb)",
    R"('true'::jsonb)",
    R"('[]'::jsonb)",
    R"('{}'::jsonb)",
    R"('""'::jsonb)",
    R"('[1, "two", [3], {"four": 4}]'::jsonb)",
    R"('{"n": 123456789012345678901234567890.000123456789, "tiny": 1e-400, "huge": 1e400}'::jsonb)",
    R"('{"zeros": 1.500, "minus": -0.0, "int": 9007199254740993}'::jsonb)",
    R"('{"greek": "αβγ", "emoji": "😀", "escaped": "\u00e9\ud83d\ude00"}'::jsonb)",
    R"('{"escapes": "quote \" backslash \\ tab \t newline \n bell \u0007 slash \/ del \u007f"}'::jsonb)",
    R"(jsonb_build_object('long', repeat('0123456789', 20000)))",
    R"('  {"spaces" :   1 }  '::jsonb)",
    "null::jsonb",
};
constexpr const char *kKeys[] = {"plain", "with space", "schlüssel", "😀", "quote\"'\\", "0"};

// Rows of (aggregate_type, aggregate_id, event_type, payload, created_at), whose first is $1.
constexpr const char *kInserted[] = {
    R"('inserted', 'compared', '{"plain": 1}', clock_timestamp())",
    R"('inserted', 'compared', '{"time": 1}', '2026-01-31 10:05:00.12+01')",
    R"('inserted', 'compared', '{"time": 2}', '2026-01-31 10:05:00+01')",
};

// What docs/debezium.md lists. Each is looked at, so that the list stays true.
struct Difference
{
    const char *about;
    const char *columns; // of an INSERT besides the aggregate and the event's type
    const char *values;
    std::function<bool(const Record &relay, const Record &debezium)> holds;
};

const std::vector<Difference> &
differences()
{
    static const std::vector<Difference> all = {
        {"a payload of bytes is null for Debezium", "payload_bytes", R"('\x00ff')",
         [](const Record &relay, const Record &debezium)
         { return relay.value == std::string("\0\xff", 2) && !debezium.value; }},
        {"partition_key is no key for Debezium", "payload, partition_key", "'{}', 'of its own'",
         [](const Record &relay, const Record &debezium)
         { return relay.key == "of its own" && debezium.key == "different"; }},
        {"headers are left out by Debezium", "payload, headers", R"('{}', '{"trace": "1"}')",
         [](const Record &relay, const Record &debezium)
         { return relay.header("trace") == "1" && !debezium.header("trace"); }},
        {"schema_version is left out by Debezium", "payload, schema_version", "'{}', 3",
         [](const Record &relay, const Record &debezium)
         { return relay.header("schema_version") == "3" && !debezium.header("schema_version"); }},
    };
    return all;
}

using Records = std::map<std::string, Record>; // by the event's id

Records
records_of(const std::string &topic, size_t events)
{
    Consumer consumer(kafka().bootstrap(), {topic});
    if (!consumer.read_count(events, std::chrono::seconds(60)))
        throw std::runtime_error(std::to_string(consumer.records().size()) + " of " +
                                 std::to_string(events) + " records in " + topic);
    Records records;
    for (const Record &record : consumer.records())
        records[record.header("id").value_or("(none)")] = record;
    return records;
}

// Made once for all tests: what both wrote about all events.
struct Published
{
    std::vector<std::string> emitted;   // the events' ids, in the order of kPayloads
    std::vector<std::string> inserted;  // of kInserted
    std::vector<std::string> different; // of differences()
    Records relay;
    Records debezium;

    size_t events() const { return emitted.size() + inserted.size() + different.size(); }
};

void
write_events(Db &db, const std::string &type, Published &all)
{
    for (const char *payload : kPayloads)
        all.emitted.push_back(
            db.value(std::string("select outbox.emit($1, $2, 'compared', ") + payload + ")", type,
                     kKeys[all.emitted.size() % std::size(kKeys)]));
    for (const char *row : kInserted)
        all.inserted.push_back(db.value(
            std::string("insert into outbox.events (aggregate_type, aggregate_id, event_type, "
                        "payload, created_at) values ($1, ") +
                row + ") returning id",
            type));
    for (const Difference &difference : differences())
        all.different.push_back(db.value(
            std::string("insert into outbox.events (aggregate_type, aggregate_id, event_type, ") +
                difference.columns + ") values ($1, 'different', 'compared', " + difference.values +
                ") returning id",
            type));
}

Published
publish()
{
    OwnCluster server(Settings{{"wal_level", "logical"}});
    const TestDatabase database(server);
    const std::string theirs = "debezium." + database.type();
    kafka().create_topic(theirs);
    kafka().create_topic(database.topic());
    Db db = database.connect();
    db.exec("create publication outbox_debezium for table outbox.events "
            "with (publish = 'insert', publish_via_partition_root = true)");
    Properties properties = read_properties(in_source("docs/debezium.properties"));
    properties["transforms.outbox.route.topic.replacement"] = "debezium.${routedByValue}";
    properties["poll.interval.ms"] = "10";
    const Debezium debezium(server, database.name(), kafka().bootstrap(), properties);

    Published all;
    write_events(db, database.type(), all);
    all.relay = records_of(database.topic(), all.events());
    all.debezium = records_of(theirs, all.events());
    return all;
}

void
expect_same(const Record &relay, const Record &debezium)
{
    EXPECT_EQ(relay.key, debezium.key);
    EXPECT_EQ(relay.value, debezium.value);
    EXPECT_EQ(relay.partition, debezium.partition);
    for (const char *header : {"id", "event_type", "aggregate_type", "created_at"})
        EXPECT_EQ(relay.header(header), debezium.header(header)) << header;
}

class RelayAndDebezium : public testing::Test
{
protected:
    static void SetUpTestSuite() { published_ = std::make_unique<Published>(publish()); }
    static void TearDownTestSuite() { published_.reset(); }

    static const Record &relay(const std::string &id) { return published_->relay.at(id); }
    static const Record &debezium(const std::string &id) { return published_->debezium.at(id); }

    static std::unique_ptr<Published> published_;
};

std::unique_ptr<Published> RelayAndDebezium::published_;

} // namespace

TEST_F(RelayAndDebezium, PublishTheSameEvents)
{
    ASSERT_EQ(published_->events(), published_->relay.size());
    for (const auto &[id, record] : published_->relay)
        EXPECT_EQ(published_->debezium.count(id), 1U) << id;
    EXPECT_EQ(published_->relay.size(), published_->debezium.size());
}

TEST_F(RelayAndDebezium, WriteTheSameRecordsOfEveryKindOfPayload)
{
    for (size_t i = 0; i < std::size(kPayloads); i++)
    {
        SCOPED_TRACE(kPayloads[i]);
        expect_same(relay(published_->emitted.at(i)), debezium(published_->emitted.at(i)));
    }
}

TEST_F(RelayAndDebezium, WriteTheSameRecordsOfPlainInserts)
{
    for (size_t i = 0; i < std::size(kInserted); i++)
    {
        SCOPED_TRACE(kInserted[i]);
        expect_same(relay(published_->inserted.at(i)), debezium(published_->inserted.at(i)));
    }
}

TEST_F(RelayAndDebezium, DifferWhereTheDocumentationSaysSo)
{
    for (size_t i = 0; i < differences().size(); i++)
        EXPECT_TRUE(differences()[i].holds(relay(published_->different.at(i)),
                                           debezium(published_->different.at(i))))
            << differences()[i].about;
}

} // namespace outbox::test
