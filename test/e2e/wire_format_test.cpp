// What a consumer gets, byte by byte.
#include <cstring>
#include <set>

#include "servers.h"

using namespace outbox::test;

namespace
{

using Headers = std::vector<std::pair<std::string, std::optional<std::string>>>;

// Java's hash of a key (org.apache.kafka.common.utils.Utils.murmur2), by which its producer, and
// ours, choose the partition.
uint32_t
murmur2(const std::string &key)
{
    constexpr uint32_t kMultiplier = 0x5bd1e995;
    uint32_t hash = 0x9747b28cU ^ static_cast<uint32_t>(key.size());
    size_t i = 0;
    for (; i + 4 <= key.size(); i += 4)
    {
        uint32_t word = 0;
        std::memcpy(&word, key.data() + i, 4);
        word *= kMultiplier;
        word ^= word >> 24;
        hash = (hash * kMultiplier) ^ (word * kMultiplier);
    }
    const size_t rest = key.size() - i;
    if (rest > 0)
    {
        for (size_t byte = rest; byte-- > 0;)
            hash ^= static_cast<uint32_t>(static_cast<unsigned char>(key[i + byte])) << (8 * byte);
        hash *= kMultiplier;
    }
    hash ^= hash >> 13;
    hash *= kMultiplier;
    return hash ^ (hash >> 15);
}

int32_t
java_partition(const std::string &key, int partitions)
{
    return static_cast<int32_t>((murmur2(key) & 0x7fffffffU) % static_cast<uint32_t>(partitions));
}

// One database and a reader of its topic.
class WireFormat : public testing::Test
{
protected:
    static constexpr int kPartitions = 6;

    WireFormat() : database(cluster()), db(database.connect())
    {
        kafka().create_topic(database.topic(), kPartitions);
        consumer = std::make_unique<Consumer>(kafka().bootstrap(),
                                              std::vector<std::string>{database.topic()});
    }

    // The record of the only event emitted since the last call.
    Record next_record()
    {
        ++expected_;
        if (!consumer->read_count(expected_, std::chrono::seconds(20)))
            throw std::runtime_error("the event did not arrive");
        EXPECT_EQ(consumer->records().size(), expected_);
        return consumer->records().back();
    }

    // The headers that the relay sets for the event, as its row says they must be.
    Headers own_headers(const std::string &id)
    {
        const Result row =
            db.exec("select event_type, aggregate_type, to_char(created_at at time zone 'UTC', "
                    "'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') from outbox.events where id = $1",
                    id);
        return {{"id", id},
                {"event_type", row.text(0, 0)},
                {"aggregate_type", row.text(0, 1)},
                {"created_at", row.text(0, 2)}};
    }

    std::string emit(const std::string &arguments)
    {
        return db.value("select outbox.emit($1, " + arguments + ")", database.type());
    }

    TestDatabase database;
    Db db;
    std::unique_ptr<Consumer> consumer;

private:
    size_t expected_ = 0;
};

} // namespace

TEST_F(WireFormat, APlainEventHasItsTopicKeyValueHeadersAndTime)
{
    const std::string id = emit("'42', 'order_placed', '{\"total\": 9.90, \"items\": [1, 2]}'");
    const Record record = next_record();
    EXPECT_EQ(record.topic, "outbox.event." + database.type());
    EXPECT_EQ(record.key, "42");
    EXPECT_EQ(record.value, R"({"items": [1, 2], "total": 9.90})");
    EXPECT_EQ(record.headers, own_headers(id));
    EXPECT_EQ(
        record.timestamp_ms,
        std::stoll(db.value(
            "select floor(extract(epoch from created_at) * 1000)::bigint from outbox.events")));
}

TEST_F(WireFormat, SchemaVersionAndTheCallersHeadersFollowTheRelaysOwn)
{
    const std::string id =
        emit(R"('42', 'e', '1', headers => '{"traceparent": "00-ab-cd-01", "n": 12.50, "leer": ""}',
                                   schema_version => 7)");
    Headers expected = own_headers(id);
    expected.emplace_back("schema_version", "7");
    // In the order that jsonb keeps: by length, then by bytes.
    expected.emplace_back("n", "12.50");
    expected.emplace_back("leer", "");
    expected.emplace_back("traceparent", "00-ab-cd-01");
    EXPECT_EQ(next_record().headers, expected);
}

TEST_F(WireFormat, ThePartitionKeyReplacesTheAggregateId)
{
    emit("'42', 'e', '{}', partition_key => 'customer 7'");
    EXPECT_EQ(next_record().key, "customer 7");
}

TEST_F(WireFormat, TheCallersEventIdIsSentAsItIs)
{
    const std::string id = "0190b1a2-3c4d-7e5f-8a6b-0123456789ab";
    EXPECT_EQ(emit("'42', 'e', '{}', event_id => '" + id + "'"), id);
    EXPECT_EQ(next_record().header("id"), id);
}

TEST_F(WireFormat, ANullPayloadIsATombstoneAndNotAnEmptyValue)
{
    emit("'42', 'deleted', null");
    EXPECT_EQ(next_record().value, std::nullopt);
    db.exec("select outbox.emit_bytes($1, '42', 'deleted', null)", database.type());
    EXPECT_EQ(next_record().value, std::nullopt);
    db.exec("select outbox.emit_bytes($1, '42', 'empty', '')", database.type());
    EXPECT_EQ(next_record().value, "");
}

TEST_F(WireFormat, EmptyObjectAndJsonNullAreValues)
{
    emit("'42', 'e', '{}'");
    EXPECT_EQ(next_record().value, "{}");
    emit("'42', 'e', 'null'");
    EXPECT_EQ(next_record().value, "null");
}

TEST_F(WireFormat, TextIsUtf8EverywhereAndBytesAreLeftAlone)
{
    const std::string id = emit(
        R"('Größe-鍵-🙂', 'größer', '{"Straße": "日本 🙂 \u00e9 \" \\ \n"}', headers => '{"ключ": "значение"}')");
    Record record = next_record();
    EXPECT_EQ(record.key, "Größe-鍵-🙂");
    EXPECT_EQ(record.value, R"({"Straße": "日本 🙂 é \" \\ \n"})");
    Headers expected = own_headers(id);
    EXPECT_EQ(expected[1].second, "größer");
    expected.emplace_back("ключ", "значение");
    EXPECT_EQ(record.headers, expected);

    db.exec(R"(select outbox.emit_bytes($1, '42', 'avro', '\x00ff0a00c3'))", database.type());
    EXPECT_EQ(next_record().value, std::string("\x00\xff\x0a\x00\xc3", 5));
}

TEST_F(WireFormat, APayloadOf900KilobytesArrivesWhole)
{
    emit("'42', 'large', jsonb_build_object('data', repeat('0123456789', 90000))");
    const Record record = next_record();
    ASSERT_TRUE(record.value);
    EXPECT_EQ(record.value->size(), 900000 + std::strlen(R"({"data": ""})"));
    EXPECT_EQ(*record.value, db.value("select payload::text from outbox.events"));
}

TEST_F(WireFormat, PlainInsertInsertSelectAndCopyAreAsGoodAsEmit)
{
    const std::string type = database.type();
    db.exec("insert into outbox.events (aggregate_type, aggregate_id, event_type, payload) values "
            "($1, '1', 'e', '{}')",
            type);
    Record record = next_record();
    EXPECT_EQ(record.key, "1");
    EXPECT_EQ(record.headers, own_headers(db.value("select id from outbox.events")));

    db.exec("insert into outbox.events (aggregate_type, aggregate_id, event_type, payload) "
            "select $1, '1', 'e', to_jsonb(i) from generate_series(1, 5) i",
            type);
    db.copy_in("copy outbox.events (aggregate_type, aggregate_id, event_type, payload) from stdin",
               type + "\t1\te\t6\n" + type + "\t1\te\t7\n");
    const Report report = check_delivery(db, *consumer);
    EXPECT_EQ(report.events, 8U);
    EXPECT_TRUE(report.exact()) << report.summary();
}

TEST_F(WireFormat, AnEventThatGoesOutLateCarriesTheTimeOfPublishing)
{
    db.exec("insert into outbox.events (aggregate_type, aggregate_id, event_type, created_at) "
            "values ($1, '1', 'e', '2020-01-31 09:05:00.000123+00')",
            database.type());
    const Record record = next_record();
    EXPECT_EQ(record.header("created_at"), "2020-01-31T09:05:00.000123Z");
    const auto now =
        std::chrono::duration_cast<Milliseconds>(record.received.time_since_epoch()).count();
    EXPECT_NEAR(static_cast<double>(record.timestamp_ms), static_cast<double>(now), 60000);
}

TEST_F(WireFormat, KeysGoToThePartitionThatAJavaProducerWouldChoose)
{
    // Vectors of Kafka's own tests, to trust the function above.
    const std::vector<std::pair<std::string, int32_t>> vectors = {
        {"21", -973932308},
        {"foobar", -790332482},
        {"a-little-bit-long-string", -985981536},
        {"a-little-bit-longer-string", -1486304829},
        {"abc", 479470107}};
    for (const auto &[key, hash] : vectors)
    {
        ASSERT_EQ(static_cast<int32_t>(murmur2(key)), hash) << key;
        emit("'" + key + "', 'e', '{}'");
    }
    db.exec("select outbox.emit($1, 'key-' || i, 'e', '{}') from generate_series(1, 60) i",
            database.type());
    ASSERT_TRUE(consumer->read_count(vectors.size() + 60, std::chrono::seconds(20)));

    std::set<int32_t> used;
    for (const Record &record : consumer->records())
    {
        EXPECT_EQ(record.partition, java_partition(record.key.value(), kPartitions))
            << record.key.value();
        used.insert(record.partition);
    }
    EXPECT_EQ(used.size(), static_cast<size_t>(kPartitions)) << "keys for every partition";
}
