// Random events, by every way that they can take, beside good ones: whatever is accepted is
// published or set aside, the good ones flow in their order, and the relay lives on.
#include <algorithm>
#include <random>
#include <set>

#include "odd_events.h"

#include "support/seed.h"

using namespace outbox::test;

namespace
{

// Makes SQL expressions.
class RandomRow
{
public:
    RandomRow(unsigned seed, std::string encoding) : random_(seed), encoding_(std::move(encoding))
    {
    }

    int below(int count) { return std::uniform_int_distribution<int>(0, count - 1)(random_); }

    std::string one_of(const std::vector<std::string> &choices)
    {
        return choices[static_cast<size_t>(below(static_cast<int>(choices.size())))];
    }

    // A character that the encoding has, or that nobody has checked.
    std::string character()
    {
        const std::string byte = std::to_string(1 + below(255));
        const auto hex = [](int value)
        {
            char text[3];
            std::snprintf(text, sizeof(text), "%02x", static_cast<unsigned>(value));
            return std::string(text);
        };
        if (encoding_ == "SQL_ASCII")
            return "E'\\x" + hex(1 + below(255)) + "'";
        if (encoding_ == "EUC_JP")
            return "convert_from('\\x" + hex(0xa1 + below(94)) + hex(0xa1 + below(94)) +
                   "', 'EUC_JP')";
        if (encoding_ == "MULE_INTERNAL")
            return "convert_from('\\x81" + hex(0xa0 + below(96)) + "', 'MULE_INTERNAL')";
        if (encoding_ == "UTF8")
            return "chr(" + std::to_string(one_of_points()) + ")";
        return "chr(" + byte + ")"; // LATIN1, WIN1252
    }

    // Sizes about what matters somewhere: short headers of values, TOAST, and the largest event.
    int size()
    {
        static const int kSizes[] = {1,    2,    125,  126,   127,   128,    1999,   2000,
                                     2001, 4000, 8100, 20000, 70000, 900000, 999900, 1000100};
        return kSizes[below(below(8) == 0 ? 16 : 12)];
    }

    std::string text()
    {
        switch (below(8))
        {
        case 0:
            return "''";
        case 1:
            return "null::text";
        case 2:
            return "repeat('x', " + std::to_string(size()) + ")";
        case 3:
            return "left((select string_agg(md5(random()::text), '') from generate_series(1, " +
                   std::to_string(size() / 32 + 1) + ")), " + std::to_string(size()) + ")";
        case 4:
            return "'a' || " + character();
        case 5:
            return character();
        default:
            return "'plain" + std::to_string(below(1000)) + "'";
        }
    }

    std::string number()
    {
        return one_of({"0", "-0.000", "1e131071", "-1e131071", "1e-16383", "0.1", "12.50",
                       "9999999999999999999999", "1e64", "123456789e120", "0.00000000000000000001",
                       "1e40000"}) +
               "::numeric";
    }

    std::string json(int depth = 3)
    {
        const std::string levels = std::to_string(one_of_levels());
        switch (below(depth > 0 ? 9 : 5))
        {
        case 0:
            return "to_jsonb(" + number() + ")";
        case 1:
            return "to_jsonb(coalesce(" + text() + ", ''))";
        case 2:
            return "'" + one_of({"null", "true", "{}", "[]", "\"\"", "7"}) + "'::jsonb";
        case 3:
            return "(repeat('[', " + levels + ") || repeat(']', " + levels + "))::jsonb";
        case 4:
            return "to_jsonb(repeat('\\u0001\"', 100))";
        case 5:
            return "(select jsonb_agg(" + json(0) + ") from generate_series(1, " +
                   std::to_string(1 + below(40)) + "))";
        case 6:
            return "jsonb_build_object('k' || " + std::to_string(below(9)) + ", " +
                   json(depth - 1) + ")";
        default:
            return "jsonb_build_array(" + json(depth - 1) + ", " + json(depth - 1) + ")";
        }
    }

    std::string headers()
    {
        switch (below(8))
        {
        case 0:
            return json();
        case 1:
            return "(select jsonb_object_agg('h' || i, " + number() + ") from generate_series(1, " +
                   std::to_string(below(20)) + ") i)";
        case 2:
            return "jsonb_build_object('h' || " + character() + ", " + text() + ")";
        case 3:
            return "jsonb_build_object(" +
                   one_of({"'id'", "'replay_id'", "'Content-Type'", "'ce_id'", "''", "'created_at'",
                           "'ce_datacontenttype'"}) +
                   ", " + text() + ")";
        case 4:
            return "(select jsonb_object_agg('h' || i, '') from generate_series(1, " +
                   std::to_string(below(10) * 1500) + ") i)";
        case 5:
            return "'{}'::jsonb";
        default:
            return "null::jsonb";
        }
    }

    std::string bytes()
    {
        return one_of({"null::bytea", "''::bytea",
                       "decode(repeat('00ff', " + std::to_string(size() / 2) + "), 'hex')"});
    }

    std::string time()
    {
        return one_of({"now()", "'infinity'", "'-infinity'", "'4713-01-01 BC'", "'294276-12-31'",
                       "'0001-01-01'", "'1970-01-01'", "now() + '2 hours'", "'9999-12-31'"}) +
               "::timestamptz";
    }

    std::string version() { return one_of({"null::int", "0", "1", "2147483647", "-2147483648"}); }

private:
    int one_of_points()
    {
        static const int kPoints[] = {1,      9,      0x1f,    0x22,    0x5c,    0x7f,   0x80,
                                      0x9f,   0xe9,   0x2028,  0xd7ff,  0xe000,  0xfdd0, 0xfffd,
                                      0xfffe, 0xffff, 0x1f600, 0x1ffff, 0x10ffff};
        return kPoints[below(19)];
    }
    int one_of_levels()
    {
        static const int kLevels[] = {1, 50, 99, 100, 101, 500, 1999, 2001};
        return kLevels[below(8)];
    }

    std::mt19937 random_;
    std::string encoding_;
};

// One random event by a random way. Returns whether it was accepted.
bool
try_event(OddEvents &scene, RandomRow &random)
{
    // One key in three is that of good events, so that good ones come to stand behind odd ones.
    const std::string type =
        random.below(10) == 0 ? random.text() : "'" + scene.database().type() + "'";
    const std::string key = random.below(3) == 0 ? "'good0'" : random.text();
    const std::string partition = random.below(4) == 0 ? random.text() : "null::text";
    try
    {
        const int way = random.below(5);
        scene.check_inserts(way < 4);
        switch (way)
        {
        case 0:
            scene.db().exec("select outbox.emit(" + type + ", " + key + ", " + random.text() +
                            ", " + random.json() + ", " + random.headers() + ", " + partition +
                            ", schema_version => " + random.version() + ")");
            return true;
        case 1:
            scene.db().exec("select outbox.emit_bytes(" + type + ", " + key + ", " + random.text() +
                            ", " + random.bytes() + ", " + random.headers() + ", " + partition +
                            ")");
            return true;
        case 2:
            scene.db().copy_in("copy outbox.events (aggregate_type, aggregate_id, event_type, "
                               "payload, created_at) from stdin",
                               scene.database().type() + "\t" +
                                   random.one_of({"k\\x81", "k\\xe9", "plain", "", "\\t\\\\"}) +
                                   "\t" + random.one_of({"e", "\\xff"}) + "\t" +
                                   random.one_of({"{}", "\\N", "[1e131071]", "{"}) + "\t" +
                                   random.one_of({"now", "2000-01-01", "infinity"}) + "\n");
            return true;
        case 3:
            scene.db().exec("insert into outbox.events (aggregate_type, aggregate_id, event_type, "
                            "payload, headers, created_at) values (" +
                            type + ", " + key + ", " + random.text() + ", " + random.json() + ", " +
                            random.headers() + ", " + random.time() + ")");
            return true;
        default:
            scene.insert({{"aggregate_type", type},
                          {"aggregate_id", key},
                          {"event_type", random.text()},
                          {"partition_key", partition},
                          {"payload", random.below(2) == 0 ? random.json() : "null::jsonb"},
                          {"payload_bytes", random.below(2) == 0 ? random.bytes() : "null::bytea"},
                          {"headers", random.headers()},
                          {"created_at", random.time()},
                          {"schema_version", random.version()}});
            return true;
        }
    }
    catch (const SqlError &error)
    {
        // Refused where it was emitted, with a code that says why.
        EXPECT_NE(error.sqlstate(), "") << error.what();
        EXPECT_NE(error.sqlstate().substr(0, 2), "XX") << error.what();
        return false;
    }
}

// Of every event that was accepted: published or set aside, and none of them both.
void
expect_settled(OddEvents &scene)
{
    // What comes past the trigger counts when the relay has met it.
    ASSERT_TRUE(scene.arrive({scene.emit("last")})) << scene.describe();
    const auto settled = [&]
    {
        return scene.db().value("select (select backlog_events = 0 from outbox.relay_status) and "
                                "not exists (select from outbox.deliveries where state = "
                                "'RETRYING')") == "t";
    };
    ASSERT_TRUE(wait_until(std::chrono::seconds(60), settled)) << scene.describe();
    const std::vector<std::string> aside =
        scene.db().column("select event_id::text from outbox.deliveries");
    const std::set<std::string> set_aside(aside.begin(), aside.end());
    std::vector<std::string> published;
    for (const std::string &id : scene.db().column(
             "select id::text from outbox.events where aggregate_type = $1 order by seq",
             scene.database().type()))
        if (set_aside.count(id) == 0)
            published.push_back(id);
    if (!scene.arrive(published))
    {
        std::map<std::string, int> copies;
        for (const Record &record : scene.consumer().records())
            copies[id_of(record)]++;
        for (const std::string &id : published)
            if (copies[id] != 1)
                ADD_FAILURE() << copies[id] << " copies of "
                              << scene.db().value("select concat_ws(' ', seq, xid, created_at, "
                                                  "length(aggregate_id), length(partition_key), "
                                                  "length(payload::text), length(payload_bytes), "
                                                  "length(headers::text)) from "
                                                  "outbox.events where id = $1",
                                                  id);
    }
    for (const Record &record : scene.consumer().records())
        EXPECT_EQ(set_aside.count(id_of(record)), 0U) << id_of(record);
}

void
run_events(PgCluster &server, const std::string &encoding, unsigned seed, int count)
{
    SCOPED_TRACE(encoding);
    RandomRow random(seed, encoding);
    OddEvents scene(
        server, encoding,
        {{"outbox.max_attempts", "1"},
         {"outbox.headers_format", random.one_of({"debezium", "cloudevents", "both"})}});
    const pid_t relay = scene.database().relay_pid();
    std::vector<std::string> good;
    int accepted = 0;
    for (int i = 0; i < count; ++i)
    {
        accepted += try_event(scene, random) ? 1 : 0;
        if (i % 3 == 0)
            good.push_back(scene.emit("good" + std::to_string(1 + i % 4)));
    }
    expect_settled(scene);
    // Nobody stands behind an odd event but in its key.
    const std::string aside = scene.db().value(
        "select count(*) from outbox.deliveries where partition_key ~ '^good[1-4]$'");
    EXPECT_EQ(aside, "0") << scene.describe();
    for (int key = 1; key <= 4; ++key)
    {
        std::vector<std::string> expected;
        for (size_t i = 0; i < good.size(); ++i)
            if (static_cast<int>(1 + i * 3 % 4) == key)
                expected.push_back(good[i]);
        const std::vector<std::string> arrived = scene.arrived("good" + std::to_string(key));
        EXPECT_EQ(arrived, expected) << "good" << key;
    }
    // What was set aside can be settled by the id that is shown.
    scene.db().exec("select outbox.discard(event_id, 'test') from outbox.deliveries "
                    "where state in ('FAILED', 'WAITING')");
    EXPECT_EQ(scene.db().value("select outbox.drain('20 s')"), "t") << scene.describe();
    EXPECT_EQ(scene.database().relay_pid(), relay) << "the relay was restarted";
    std::printf("%s: %d of %d accepted, VmHWM %ld kB\n", encoding.c_str(), accepted, count,
                memory_kb(relay, "VmHWM"));
    EXPECT_LT(memory_kb(relay, "VmHWM"), 192 * 1024) << "kB";
}

} // namespace

TEST(RandomEvents, WhateverIsAcceptedIsPublishedOrSetAsideAndGoodOnesFlow)
{
    const char *wanted = std::getenv("OUTBOX_TEST_EVENTS");
    const int count = wanted != nullptr ? std::stoi(wanted) : 60;
    const unsigned seed = choose_seed();
    for (const char *encoding :
         {"UTF8", "SQL_ASCII", "LATIN1", "WIN1252", "EUC_JP", "MULE_INTERNAL"})
        run_events(cluster(), encoding, seed, count);
}

// The transaction counter is moved on by more than the 32-bit form of an id can tell, and how old
// transactions ended is forgotten.
TEST(OldBacklog, EventsOfTransactionsThatAreTwoBillionBackArePublished)
{
    OwnCluster server;
    TestDatabase database(server);
    Db db = database.connect();
    Consumer consumer(kafka().bootstrap(), {database.topic()});
    ASSERT_TRUE(database.reaches_state("running"));
    db.exec("select outbox.pause()");
    ASSERT_TRUE(database.reaches_state("paused"));
    for (int i = 0; i < 5; ++i)
        db.exec("select outbox.emit($1, 'k', 'e', '{}')", database.type());
    for (const std::string &name :
         Db(server, "postgres").column("select datname from pg_database where datallowconn"))
        Db(server, name).exec("vacuum freeze");
    const int version = std::stoi(db.value("show server_version_num"));
    server.stop();
    constexpr unsigned kNext = 4200000000U;
    constexpr unsigned kPerSegment = 1048576;
    char segment[16];
    std::snprintf(segment, sizeof(segment), "%04X", kNext / kPerSegment);
    const auto clog = server.data_dir() / "pg_xact";
    const auto as_server = [](const std::vector<std::string> &words)
    {
        Command command(words);
        command.as_server_user = true;
        run_or_throw(command);
    };
    as_server({"dd", "if=/dev/zero", "of=" + (clog / segment).string(),
               "bs=" + std::to_string(kPerSegment / 4), "count=1", "status=none"});
    // Before 13.4 the oldest id follows by itself, and there is no option for it.
    std::vector<std::string> reset = {server.own_program("pg_resetwal"), "-x",
                                      std::to_string(kNext), "-D", server.data_dir().string()};
    if (version >= 130004)
        reset.insert(reset.end(), {"-u", std::to_string(kNext - 2000000000U)});
    as_server(reset);
    std::filesystem::remove(clog / "0000");
    server.start();
    db = database.connect();
    db.exec("select outbox.resume()");
    EXPECT_TRUE(consumer.read_count(5, std::chrono::seconds(20)))
        << db.value("select to_jsonb(s) from outbox.relay_status s");
}
