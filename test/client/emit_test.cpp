// Emitting from C++.
#include "harness.h"
#include "outbox/emit.h"

using namespace outbox::test;
using outbox::Bytes;
using outbox::Json;

namespace
{

struct EmitScene
{
    EmitScene()
        : database(cluster()),
          connection(PQconnectdb(cluster().conninfo(database.name()).c_str()), &PQfinish)
    {
    }
    PGconn *get() const { return connection.get(); }
    std::string count() const
    {
        return database.connect().value("select count(*) from outbox.events");
    }
    outbox::Event event(int number = 1) const
    {
        outbox::Event event;
        event.aggregate_type = database.type();
        event.aggregate_id = std::to_string(number);
        event.event_type = "order.created";
        event.payload = Json{"{\"n\": " + std::to_string(number) + "}"};
        return event;
    }

    TestDatabase database;
    std::unique_ptr<PGconn, decltype(&PQfinish)> connection;
};

} // namespace

TEST(Emit, AnEventArrivesInKafkaAsItWasGiven)
{
    EmitScene scene;
    outbox::Event event = scene.event();
    event.headers = {{"traceparent", "00-4bf9"},
                     {"odd \"name\"", "tab\t, \"quotes\", \\, \x01, ä"}};
    event.partition_key = "a key";
    event.id = "00000000-0000-7000-8000-00000000abcd";
    event.schema_version = 3;
    EXPECT_EQ(outbox::emit(scene.get(), event), *event.id);
    Consumer reader(kafka().bootstrap(), {scene.database.topic()});
    ASSERT_TRUE(reader.read_count(1, kSoon));
    const Record &record = reader.records()[0];
    EXPECT_EQ(record.key, "a key");
    EXPECT_EQ(record.value, "{\"n\": 1}");
    EXPECT_EQ(record.header("id"), *event.id);
    EXPECT_EQ(record.header("event_type"), "order.created");
    EXPECT_EQ(record.header("schema_version"), "3");
    for (const auto &[name, value] : event.headers)
        EXPECT_EQ(record.header(name), value);
}

TEST(Emit, ManyEventsOfAllKindsKeepTheirOrder)
{
    EmitScene scene;
    std::vector<outbox::Event> events;
    for (int i = 0; i < 2500; ++i)
    {
        outbox::Event event = scene.event(i);
        event.partition_key = "one";
        if (i % 5 == 1)
            event.payload = Bytes{std::string("\0\xff\\\"", 4) + std::to_string(i)};
        if (i % 5 == 2)
            event.payload = std::monostate();
        if (i % 5 == 3)
            event.headers = {{"number", std::to_string(i)}, {"quote", "\"\\{},NULL"}};
        if (i % 5 == 4)
            event.schema_version = i;
        events.push_back(event);
    }
    run_sql(scene.get(), "begin");
    const std::vector<std::string> ids = outbox::emit_many(scene.get(), events);
    run_sql(scene.get(), "commit");
    ASSERT_EQ(ids.size(), events.size());
    Consumer reader(kafka().bootstrap(), {scene.database.topic()});
    ASSERT_TRUE(reader.read_count(events.size(), kSoon));
    for (size_t i = 0; i < events.size(); ++i)
    {
        const Record &record = reader.records()[i];
        EXPECT_EQ(record.header("id"), ids[i]);
        if (const auto *json = std::get_if<Json>(&events[i].payload))
            EXPECT_EQ(record.value, json->text);
        else if (const auto *bytes = std::get_if<Bytes>(&events[i].payload))
            EXPECT_EQ(record.value, bytes->data);
        else
            EXPECT_EQ(record.value, std::nullopt);
        for (const auto &[name, value] : events[i].headers)
            EXPECT_EQ(record.header(name), value);
        EXPECT_EQ(record.header("schema_version").has_value(),
                  events[i].schema_version.has_value());
    }
}

// Where the second byte of a character can be that of a backslash or a bracket.
TEST(Emit, TextsInEveryClientEncodingArriveAsTheyAre)
{
    struct Case
    {
        const char *encoding;
        std::string text; // in it
        const char *utf8;
    };
    const std::vector<Case> cases = {{"SJIS", "\x95\x5c\x8e\xa6 \"\\", "\u8868\u793a \"\\"},
                                     {"BIG5", "\xb3\x5c\xa5\x5c", "\u8a31\u529f"},
                                     {"GBK", "\x81\x5c\xd6\xd0", "\u4e57\u4e2d"},
                                     {"GB18030", "\x81\x30\x81\x30\x81\x5c", "\u0080\u4e57"},
                                     {"UHC", "\xb0\xa1\x81\x41", "\uac00\uac02"},
                                     {"LATIN1", "\xe4\\", "\u00e4\\"},
                                     {"UTF8", "\xc3\xa4\"\\", "\u00e4\"\\"}};
    EmitScene scene;
    std::vector<std::string> ids;
    for (const Case &one : cases)
    {
        ASSERT_EQ(PQsetClientEncoding(scene.get(), one.encoding), 0);
        outbox::Event event = scene.event();
        event.headers = {{"a", one.text}, {"n" + one.text, "x"}};
        event.partition_key = one.text;
        ids.push_back(outbox::emit(scene.get(), event));
        run_sql(scene.get(), "begin");
        ids.push_back(outbox::emit_many(scene.get(), {event})[0]);
        run_sql(scene.get(), "commit");
        run_sql(scene.get(), "begin");
        // Half a character is refused, and takes nothing along.
        event.partition_key = one.text + one.text.substr(0, 1);
        if (std::string(one.encoding) != "LATIN1")
        {
            EXPECT_EQ(code_of([&] { outbox::emit_many(scene.get(), {event}); }).substr(0, 2), "22");
        }
        run_sql(scene.get(), "rollback");
    }
    Db db = scene.database.connect();
    for (size_t i = 0; i < ids.size(); ++i)
    {
        const std::string want = cases[i / 2].utf8;
        EXPECT_EQ(
            db.value("select partition_key from outbox.events where id = $1::text::uuid", ids[i]),
            want)
            << cases[i / 2].encoding;
        EXPECT_EQ(db.value("select concat(headers ->> 'a', '|', headers ->> ('n' || $2::text)) "
                           "from outbox.events where id = $1::text::uuid",
                           ids[i], want),
                  want + "|x")
            << cases[i / 2].encoding;
    }
}

TEST(Emit, OnlyTheFunctionThatIsNeededMustBeGranted)
{
    EmitScene scene;
    Db(cluster(), scene.database.name())
        .exec(
            "create role " + scene.database.name() +
            " login;"
            "grant usage on schema outbox to " +
            scene.database.name() +
            ";"
            "grant execute on function outbox.emit(text, text, text, jsonb, jsonb, text, uuid, int)"
            " to " +
            scene.database.name());
    run_sql(scene.get(), "set role " + scene.database.name());
    run_sql(scene.get(), "begin");
    EXPECT_EQ(outbox::emit_many(scene.get(), {scene.event(1), scene.event(2)}).size(), 2U);
    outbox::Event bytes = scene.event();
    bytes.payload = Bytes{"x"};
    EXPECT_EQ(code_of([&] { outbox::emit_many(scene.get(), {bytes}); }), "42501");
    run_sql(scene.get(), "rollback");
    run_sql(scene.get(), "reset role");
    Db(cluster(), scene.database.name())
        .exec("drop owned by " + scene.database.name() + "; drop role " + scene.database.name());
}

TEST(Emit, ItBelongsToTheTransactionOfTheCaller)
{
    EmitScene scene;
    run_sql(scene.get(), "begin");
    outbox::emit(scene.get(), scene.event());
    run_sql(scene.get(), "savepoint s");
    outbox::emit_many(scene.get(), {scene.event(2), scene.event(3)});
    run_sql(scene.get(), "rollback to s");
    EXPECT_EQ(scene.count(), "0");
    run_sql(scene.get(), "commit");
    EXPECT_EQ(scene.count(), "1");
}

TEST(Emit, BadInputAndBadMomentsAreErrorsWithASqlstate)
{
    EmitScene scene;
    PGconn *connection = scene.get();
    const auto emit = [&](const outbox::Event &event)
    { return code_of([&] { outbox::emit(connection, event); }); };
    outbox::Event event = scene.event();
    event.aggregate_id = std::string("a\0b", 3);
    EXPECT_EQ(emit(event), "22023");
    event = scene.event();
    event.headers = {{"name", std::string("\0", 1)}};
    EXPECT_EQ(emit(event), "22023");
    event = scene.event();
    event.payload = Json{"{not json"};
    EXPECT_EQ(emit(event), "22P02");
    event = scene.event();
    event.id = "no uuid";
    EXPECT_EQ(emit(event), "22P02");
    event = scene.event();
    event.event_type = "";
    EXPECT_EQ(emit(event), "22023");
    event = scene.event();
    event.headers = {{"id", "one that the relay sets"}};
    EXPECT_EQ(emit(event), "22023");
    event = scene.event();
    event.payload = Bytes{std::string(2000000, 'x')};
    EXPECT_EQ(emit(event), "54000");
    EXPECT_EQ(code_of([&] { outbox::emit_many(connection, {scene.event()}); }), "25P01");
    EXPECT_EQ(code_of([&] { outbox::emit(nullptr, scene.event()); }), "55000");
    PQenterPipelineMode(connection);
    EXPECT_EQ(emit(scene.event()), "55000");
    PQexitPipelineMode(connection);
    PQsendQuery(connection, "select pg_sleep(0)");
    EXPECT_EQ(emit(scene.event()), "55000");
    while (PGresult *result = PQgetResult(connection))
        PQclear(result);
    run_sql(connection, "begin");
    event = scene.event();
    event.event_type = "";
    EXPECT_EQ(code_of([&] { outbox::emit_many(connection, {scene.event(), event}); }), "22023");
    EXPECT_EQ(emit(scene.event()), "25P02");
    run_sql(connection, "rollback");
    EXPECT_EQ(scene.count(), "0");
    run_sql(connection, "begin");
    EXPECT_NE(
        code_of([&] { run_sql(connection, "select pg_terminate_backend(pg_backend_pid())"); }), "");
    EXPECT_EQ(emit(scene.event()), "08006");
}

TEST(Emit, WhatIsNullStaysNullWhateverTheSettingsOfTheSession)
{
    EmitScene scene;
    outbox::Event event = scene.event();
    event.aggregate_id = "NULL";
    outbox::Event full = event;
    full.headers = {{"NULL", "null"}};
    full.partition_key = "NULL";
    full.schema_version = 7;
    outbox::Event binary = event;
    binary.payload = outbox::Bytes{std::string("\0\\\"{},\xff", 7)};
    run_sql(scene.get(), "begin");
    for (const outbox::Event &one : {event, full, binary})
        (void) outbox::emit(scene.get(), one);
    run_sql(scene.get(), "set local array_nulls = off; set local bytea_output = escape;"
                         " set local standard_conforming_strings = off");
    EXPECT_EQ(outbox::emit_many(scene.get(), {event, full}).size(), 2U);
    EXPECT_EQ(outbox::emit_many(scene.get(), {binary}).size(), 1U);
    EXPECT_EQ(outbox::emit_many(scene.get(), {event, full, binary}).size(), 3U);
    run_sql(scene.get(), "commit");
    Db db = scene.database.connect();
    EXPECT_EQ(db.value("select count(*) || ' ' || count(distinct (aggregate_type, aggregate_id,"
                       " partition_key, headers, payload, payload_bytes, schema_version))"
                       " from outbox.events"),
              "9 3");
}
