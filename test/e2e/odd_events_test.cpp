// Whatever goes wrong with one event is that event's failure: it is set aside, its line waits, and
// everything else flows.

#include "odd_events.h"

using namespace outbox::test;

namespace
{

// A text of the column's type with one byte that has no equivalent in UTF-8.
struct BadText
{
    std::string column;
    std::string value;
};

std::vector<BadText>
bad_texts(const std::string &bad)
{
    return {{"aggregate_id", "'a' || " + bad},
            {"event_type", "'e' || " + bad},
            {"partition_key", "'p' || " + bad},
            {"payload", "to_jsonb('v' || " + bad + ")"},
            {"headers", "jsonb_build_object('h' || " + bad + ", 'x')"},
            {"headers", "jsonb_build_object('h', 'x' || " + bad + ")"}};
}

// The texts that cannot be converted are set aside, each for itself; a retry fails again, a discard
// lets its line flow, and a row that was put right goes out.
void
expect_set_aside(const std::string &encoding, const std::string &bad, const std::string &sqlstate)
{
    SCOPED_TRACE(encoding);
    OddEvents scene(cluster(), encoding);
    const pid_t relay = scene.database().relay_pid();
    std::vector<std::string> good = {scene.emit("good")};
    std::vector<std::string> odd;
    for (const BadText &text : bad_texts(bad))
    {
        odd.push_back(
            scene.insert({{text.column, text.value},
                          text.column == "aggregate_id" || text.column == "partition_key"
                              ? std::pair<const std::string, std::string>{"payload", "'1'"}
                              : std::pair<const std::string, std::string>{
                                    "aggregate_id", "'odd" + std::to_string(odd.size()) + "'"}}));
        good.push_back(scene.emit("good"));
    }
    const std::string behind = scene.emit("odd3");
    ASSERT_TRUE(scene.arrive(good)) << scene.describe();
    for (const std::string &id : odd)
    {
        EXPECT_TRUE(scene.fails(id)) << scene.describe();
        EXPECT_EQ(scene.error(id).substr(0, 7), sqlstate + ": ") << scene.error(id);
    }
    EXPECT_EQ(scene.state(behind), "WAITING") << scene.describe();
    scene.db().exec("select outbox.retry($1)", odd[3]);
    EXPECT_TRUE(scene.fails(odd[3])) << scene.describe();
    scene.db().exec("update outbox.events set payload = '7' where id = $1", odd[3]);
    scene.db().exec("select outbox.retry($1)", odd[3]);
    EXPECT_TRUE(scene.arrive({odd[3], behind})) << scene.describe();
    EXPECT_EQ(scene.arrived("odd3"), (std::vector<std::string>{odd[3], behind}));
    for (const std::string &id : odd)
        if (id != odd[3])
            scene.db().exec("select outbox.discard($1, 'test')", id);
    EXPECT_TRUE(scene.arrive({scene.emit("odd4")})) << scene.describe();
    EXPECT_EQ(scene.database().relay_pid(), relay) << "the relay was restarted";
}

} // namespace

TEST(OddEvents, TextThatIsNotUtf8IsSetAsideWhereNobodyKnowsTheEncoding)
{
    expect_set_aside("SQL_ASCII", R"(E'\xe9')", "22021");
}

TEST(OddEvents, TextWithoutAnEquivalentInUtf8IsSetAside)
{
    expect_set_aside("WIN1252", "chr(129)", "22P05");
}

TEST(OddEvents, TextIsSetAsideWhereThereIsNoConversionAndAsciiFlows)
{
    expect_set_aside("MULE_INTERNAL", R"(convert_from('\x81e9', 'MULE_INTERNAL'))", "42883");
}

TEST(OddEvents, AValueWhosePartsAreMissingIsSetAside)
{
    OddEvents scene(cluster());
    const pid_t relay = scene.database().relay_pid();
    // It came with PostgreSQL 14.
    if (scene.db().exec("select from pg_available_extensions where name = 'pg_surgery'").rows() ==
        0)
        return;
    scene.db().exec("create extension pg_surgery");
    scene.db().exec("select outbox.pause()");
    const std::string random_text =
        "(select string_agg(md5(random()::text), '') from generate_series(1, 1000))";
    const std::string payload =
        scene.insert({{"payload", "to_jsonb(" + random_text + ")"}, {"aggregate_id", "'a'"}});
    const std::string key = scene.insert({{"aggregate_id", random_text}});
    const std::string type = scene.insert({{"event_type", random_text}, {"aggregate_id", "'b'"}});
    const std::string behind_payload = scene.emit("a");
    scene.db().exec(
        "select heap_force_kill(t.oid::regclass, array(select ('(' || b || ',' || i || ')')::tid "
        "from generate_series(0, pg_relation_size(t.oid) / 8192 - 1) b, generate_series(1, 4) i)) "
        "from pg_class c join pg_class t on t.oid = c.reltoastrelid where c.oid = "
        "('outbox.events_' || outbox.current_slot())::regclass");
    const std::string good = scene.emit("good");
    scene.db().exec("select outbox.resume()");
    ASSERT_TRUE(scene.arrive({good})) << scene.describe();
    for (const std::string &id : {payload, key, type})
    {
        EXPECT_TRUE(scene.fails(id)) << scene.describe();
        EXPECT_EQ(scene.error(id).substr(0, 21), "XX001: missing chunk ") << scene.error(id);
    }
    EXPECT_EQ(scene.state(behind_payload), "WAITING");
    EXPECT_EQ(
        scene.db().value("select partition_key from outbox.deliveries where event_id = $1", type),
        "b");
    scene.db().exec("select outbox.discard($1, 'test')", payload);
    EXPECT_TRUE(scene.arrive({behind_payload})) << scene.describe();
    EXPECT_EQ(scene.database().relay_pid(), relay) << "the relay was restarted";
    // Nor does it stop what empties the partitions: it stays behind, and the others are moved.
    const std::string whole = scene.insert({{"headers", "'7'"}, {"aggregate_id", "'c'"}});
    ASSERT_TRUE(scene.fails(whole)) << scene.describe();
    scene.db().exec("alter database " + scene.database().name() + " set outbox.retention = '1s'");
    cluster().reload();
    EXPECT_TRUE(wait_until(std::chrono::seconds(30),
                           [&]
                           {
                               return cluster().log_contains(
                                          "cannot be moved from outbox.events_0: XX001: missing") &&
                                      scene.db().value("select slot > 0 from outbox.deliveries "
                                                       "where event_id = $1",
                                                       whole) == "t";
                           }))
        << scene.describe();
    ASSERT_TRUE(scene.arrive({scene.emit("good")})) << scene.describe();
}

TEST(OddEvents, NullWhereItCannotBeAndWhatIsNoHeaderAreSetAside)
{
    OddEvents scene(cluster());
    const pid_t relay = scene.database().relay_pid();
    for (const char *column : {"created_at", "id", "aggregate_type", "aggregate_id", "event_type"})
        scene.db().exec(std::string("alter table outbox.events alter column ") + column +
                        " drop not null");
    std::vector<std::string> odd;
    for (const char *column : {"created_at", "aggregate_type", "aggregate_id", "event_type"})
        odd.push_back(scene.insert({{column, "null"}}));
    (void) scene.insert({{"id", "null"}, {"aggregate_id", "'no id'"}});
    for (const char *headers : {"'[]'", "'7'", R"('{"a": true}')", R"('{"a": {}}')",
                                R"('{"a": ["b"]}')", R"('{"b": 1, "a": null}')"})
        odd.push_back(scene.insert({{"headers", headers}, {"aggregate_id", "'headers'"}}));
    ASSERT_TRUE(scene.arrive({scene.emit("good")})) << scene.describe();
    EXPECT_TRUE(wait_until(std::chrono::seconds(20),
                           [&]
                           {
                               return scene.db().value("select count(*) from outbox.deliveries "
                                                       "where state = 'FAILED'") == "5" &&
                                      scene.db().value("select count(*) from outbox.deliveries "
                                                       "where state = 'WAITING'") == "6";
                           }))
        << scene.describe();
    EXPECT_EQ(scene.error(odd[0]), "23502: column \"created_at\" of the event is null");
    const std::string made =
        scene.db().value("select event_id from outbox.deliveries where partition_key = 'no id'");
    EXPECT_EQ(scene.db().value("select outbox.discard($1, 'test')", made), "t");
    EXPECT_EQ(scene.database().relay_pid(), relay) << "the relay was restarted";
}

TEST(OddEvents, NumbersOfManyDigitsTakeNoMoreMemoryThanTheSettingsAllow)
{
    OwnCluster server(Settings{{"outbox.max_in_flight_size", "16MB"}});
    OddEvents scene(server);
    ASSERT_TRUE(scene.arrive({scene.emit("good")}));
    const pid_t relay = scene.database().relay_pid();
    const long before = memory_kb(relay, "VmHWM");
    // PostgreSQL takes long to make such a value.
    scene.db().exec(
        "create temp table huge as select jsonb_object_agg('h' || i, 1e131071::numeric) "
        "as headers, jsonb_agg(1e131071::numeric) as payload from "
        "generate_series(1, 2000) i");
    std::vector<std::string> odd;
    for (int i = 0; i < 8; ++i)
    {
        const std::string key = "'odd" + std::to_string(i) + "'";
        odd.push_back(
            scene.insert({{"aggregate_id", key}, {"headers", "(select headers from huge)"}}));
        odd.push_back(scene.insert(
            {{"aggregate_id", key},
             {"payload", "(select jsonb_agg(payload) from huge, generate_series(1, 5))"}}));
    }
    // What has as many headers as fit, of two bytes each.
    for (int i = 0; i < 4; ++i)
        odd.push_back(scene.insert({{"aggregate_id", "'many" + std::to_string(i) + "'"},
                                    {"headers", "(select jsonb_object_agg(i, '') from "
                                                "generate_series(1, 150000) i)"}}));
    odd.push_back(scene.insert({{"aggregate_id", "'bytes'"},
                                {"payload", "null"},
                                {"payload_bytes", "decode(repeat('00', 20000000), 'hex')"}}));
    ASSERT_TRUE(scene.arrive({scene.emit("good")})) << scene.describe();
    ASSERT_TRUE(scene.fails(odd[0])) << scene.describe();
    EXPECT_EQ(scene.error(odd[0]).substr(0, 7), "54000: ") << scene.error(odd[0]);
    EXPECT_TRUE(wait_until(std::chrono::seconds(30),
                           [&]
                           {
                               return scene.db().value("select count(*) from outbox.deliveries "
                                                       "where state = 'RETRYING'") == "0";
                           }))
        << scene.describe();
    EXPECT_EQ(scene.database().relay_pid(), relay) << "the relay was restarted";
    const long grown = memory_kb(relay, "VmHWM") - before;
    std::printf("VmHWM: %ld kB and %ld kB more\n", before, grown);
    EXPECT_LT(grown, 96 * 1024) << "kB";
}

// A record's time is never in the future, and the header says what the row says.
TEST(OddEvents, TimesOfAllAgesArePublished)
{
    OddEvents scene(cluster(), "UTF8", {{"outbox.headers_format", "both"}});
    const auto now_ms = []
    {
        return std::chrono::duration_cast<Milliseconds>(
                   std::chrono::system_clock::now().time_since_epoch())
            .count();
    };
    struct Case
    {
        const char *time;
        const char *header;
        bool in_cloudevents;
    };
    const Case cases[] = {{"4713-01-01 00:00:00+00 BC", " BC", false},
                          {"infinity", "infinity", false},
                          {"-infinity", "-infinity", false},
                          {"294276-12-31 23:59:59+00", "294276-", false},
                          {"9999-12-31 23:59:59+00", "9999-12-31T23:59:59.000000Z", true},
                          {"10000-01-01 00:00:00+00", "10000-01-01", false},
                          {"1900-01-01 00:00:00+00", "1900-01-01T00:00:00.000000Z", true}};
    const auto start = now_ms();
    for (const Case &one : cases)
    {
        const std::string id = scene.insert({{"created_at", std::string("'") + one.time + "'"},
                                             {"aggregate_id", "'" + std::string(one.time) + "'"}});
        ASSERT_TRUE(scene.arrive({id})) << one.time << "\n" << scene.describe();
        const Record &record = scene.consumer().records().back();
        EXPECT_GE(record.timestamp_ms, start - 1000);
        EXPECT_LE(record.timestamp_ms, now_ms());
        EXPECT_NE(record.header("created_at").value_or("").find(one.header), std::string::npos)
            << record.header("created_at").value_or("");
        EXPECT_EQ(record.header("ce_time").has_value(), one.in_cloudevents) << one.time;
    }
    // Sums of times stay sums of times.
    EXPECT_TRUE(wait_until(std::chrono::seconds(10),
                           [&]
                           {
                               return scene.db().value(
                                          "select published >= 7 and created_to_acked_ms_sum "
                                          "between 0 and 600000 from outbox.stats_total") == "t";
                           }))
        << scene.db().value("select to_jsonb(s) from outbox.stats_total s");
}
