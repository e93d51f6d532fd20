// What outboxctl shows is what the database has: random events through every command that shows
// them, parsed by PostgreSQL and compared there.
#include "client/outboxctl/characters.h"
#include "client/outboxctl/units.h"
#include "ctl.h"
#include "support/seed.h"

#include <random>

namespace outbox::test
{

namespace
{

class Hostile
{
public:
    explicit Hostile(unsigned seed, bool ascii = false) : random_(seed), ascii_(ascii) {}

    std::size_t below(std::size_t count) { return random_() % count; }
    template <class T> const T &one_of(const std::vector<T> &all) { return all[below(all.size())]; }

    std::string text(std::size_t least = 0)
    {
        static const std::vector<std::string> plain = {
            "a",  "Z",  "0",    " ",        "\"",           "'",   "\\", "\\u202e",
            "{",  "]",  ",",    "%s",       "$1",           "<b>", "--", "\n",
            "\r", "\t", "\x01", "\x1b[31m", "\x1b]0;x\x07", "\x7f"};
        static const std::vector<std::string> wide = {"ä",
                                                      "漢",
                                                      "😀",
                                                      "\xc2\x85",
                                                      "\xc2\x9b",
                                                      "\xe2\x80\xae",
                                                      "\xe2\x80\x8b",
                                                      "\xe2\x80\xa8",
                                                      "\xef\xbb\xbf",
                                                      "\xf3\xa0\x81\x81",
                                                      "\xef\xbf\xbd",
                                                      "\xe1\x85\x9f"};
        std::string result;
        for (std::size_t i = below(12) + least; i > 0; i--)
            result += ascii_ || below(2) == 0 ? one_of(plain) : one_of(wide);
        return result;
    }

    std::string number()
    {
        static const std::vector<std::string> known = {"25.00",
                                                       "-0",
                                                       "0.10",
                                                       "1e400",
                                                       "-1.50e-300",
                                                       "1E5",
                                                       "0",
                                                       "-0.000",
                                                       "123456789012345678901234567890.09876543210",
                                                       "9007199254740993",
                                                       "1e-400"};
        if (below(2) == 0)
            return one_of(known);
        std::string digits = below(2) == 0 ? "-1" : "1";
        for (std::size_t i = below(40); i > 0; i--)
            digits += static_cast<char>('0' + below(10));
        return digits + "." + std::to_string(below(1000)) + "0";
    }

    std::string json(int depth = 3)
    {
        switch (below(depth == 0 ? 4 : 6))
        {
        case 0:
            return number();
        case 1:
            return Json(text()).dump();
        case 2:
            return one_of<std::string>({"null", "true", "false", "{}", "[]"});
        case 3:
            return number();
        case 4:
            return "[" + json(depth - 1) + "," + json(depth - 1) + "]";
        default:
            return object(depth - 1);
        }
    }

    std::string object(int depth)
    {
        return "{" + Json(text(1)).dump() + ":" + json(depth) + "," + Json(text(1)).dump() + ":" +
               json(depth) + "}";
    }

    std::string headers()
    {
        return "{" + Json(text(1)).dump() + ":" + number() + "," + Json(text(1)).dump() + ":" +
               Json(text()).dump() + "}";
    }

private:
    std::mt19937 random_;
    bool ascii_;
};

// Fails where a terminal could be driven or a person misled.
void
expect_harmless(const std::string &text)
{
    for (std::string_view rest = text; !rest.empty();)
    {
        const ctl::Character character = ctl::first_character(rest);
        ASSERT_TRUE(character.valid && (character.code == '\n' || !ctl::is_hidden(character.code)))
            << "code " << character.code << " before " << rest.substr(0, 40);
        rest.remove_prefix(character.bytes.size());
    }
}

// A server without a relay, so that nothing changes by itself.
class Digits : public testing::Test
{
protected:
    Db make_database(const std::string &name, const std::string &encoding)
    {
        Db maker(server_, "postgres");
        maker.exec("create database " + name + " template template0 encoding '" + encoding +
                   "' lc_collate 'C' lc_ctype 'C'");
        Db db(server_, name);
        db.exec("set client_encoding = utf8");
        db.exec("create extension outbox");
        return db;
    }

    // Some are refused, by emit's own rules or by the encoding; then there is none, and it is
    // false.
    static bool add_event(Db &db, Hostile &hostile)
    {
        static const std::vector<std::string> times = {"now",
                                                       "0044-03-15 BC",
                                                       "infinity",
                                                       "-infinity",
                                                       "294276-12-31 23:59:59.999999+00",
                                                       "1970-01-01 00:00:00.000001+00",
                                                       "10000-01-01",
                                                       "4000-01-01 BC"};
        const Param none;
        const bool bytes = hostile.below(5) == 0;
        const bool tombstone = hostile.below(6) == 0;
        const std::string id = db.value("select gen_random_uuid()");
        try
        {
            db.exec("insert into outbox.events (id, aggregate_type, aggregate_id, event_type, "
                    "partition_key, payload, payload_bytes, headers) values ($1, 'order', $2, "
                    "$3, $4, $5::jsonb, convert_to($6, 'SQL_ASCII'), $7::jsonb)",
                    id, hostile.text(1), hostile.text(1),
                    hostile.below(2) == 0 ? none : Param(hostile.text(1)),
                    bytes || tombstone ? none : Param(hostile.json()),
                    bytes ? Param(hostile.text()) : none,
                    hostile.below(3) == 0 ? none : Param(hostile.headers()));
            // Earlier versions took any.
            db.exec("update outbox.events set created_at = $2::text::timestamptz where id = $1", id,
                    hostile.one_of(times));
            if (hostile.below(2) == 0)
                db.exec(
                    "insert into outbox.deliveries (seq, xid, slot, event_id, lane, topic, "
                    "partition_key, state, blocking, attempts, last_error, failed_at) select seq, "
                    "xid, slot, id, seq, $2, coalesce(partition_key, aggregate_id), 'FAILED', "
                    "true, "
                    "3, $3, now() from outbox.events where id = $1",
                    id, hostile.text(1), hostile.text());
        }
        catch (const SqlError &error)
        {
            EXPECT_NE(error.sqlstate(), "") << error.what();
            return false;
        }
        return true;
    }

    // Few texts of the generator have an equivalent in some encodings.
    static void add_events(Db &db, Hostile &hostile, int wanted)
    {
        constexpr int kTries = 1000;
        int accepted = 0;
        for (int i = 0; i < kTries && accepted < wanted; i++)
            accepted += add_event(db, hostile) ? 1 : 0;
        ASSERT_EQ(accepted, wanted);
    }

    void compare(Db &db, const Environment &environment, Hostile &hostile)
    {
        const std::string reason = hostile.text();
        db.exec("select outbox.pause($1)", reason);
        const std::vector<std::string> ids = db.column("select id from outbox.events");
        Words show = {"failed", "show"};
        show.insert(show.end(), ids.begin(), ids.end());
        expect_harmless(test::ctl(environment, show).out);
        show.emplace_back("--json");
        const Ran shown = test::ctl(environment, show);
        EXPECT_EQ(shown.status, 0) << shown.err;
        expect_harmless(shown.out);
        EXPECT_EQ(
            db.column(
                "select j::text from json_array_elements($1::json -> 'events') j left join "
                "outbox.event_status s on s.id = (j ->> 'id')::uuid "
                "and j ->> 'aggregate_id' = s.aggregate_id and j ->> 'event_type' = s.event_type "
                "and j ->> 'partition_key' is not distinct from s.partition_key "
                "and (j -> 'payload')::jsonb::text = coalesce(s.payload::text, 'null') "
                "and (j ->> 'tombstone')::boolean = (s.payload is null and s.payload_bytes is "
                "null) "
                "and (j -> 'headers')::jsonb::text = coalesce(s.headers::text, 'null') "
                "and decode(j ->> 'payload_base64', 'base64') is not distinct from s.payload_bytes "
                "and (j ->> 'created_at')::timestamptz = s.created_at "
                "and j ->> 'last_error' is not distinct from s.last_error where s.id is null",
                shown.out),
            std::vector<std::string>());

        const Words list = {"failed", "list", "--limit", "1000"};
        expect_harmless(test::ctl(environment, list).out);
        const Ran listed = test::ctl(environment, {"failed", "list", "--limit", "1000", "--json"});
        expect_harmless(listed.out);
        EXPECT_EQ(
            db.value("select count(*) from json_array_elements($1::json -> 'events') j join "
                     "outbox.dead_letters d on d.event_id = (j ->> 'id')::uuid "
                     "and j ->> 'topic' = d.topic and j ->> 'key' = d.partition_key "
                     "and j ->> 'last_error' = d.last_error and j ->> 'event_type' = d.event_type "
                     "and (j ->> 'attempts')::int = d.attempts "
                     "and (j ->> 'failed_at')::timestamptz = d.failed_at",
                     listed.out),
            db.value("select count(*) from outbox.dead_letters"))
            << listed.out;

        for (const Words &words :
             std::vector<Words>{{"status"}, {"lag", "--sample", "0"}, {"doctor"}})
        {
            expect_harmless(test::ctl(environment, words).out);
            Words json = words;
            json.emplace_back("--json");
            const Ran ran = test::ctl(environment, json);
            expect_harmless(ran.out);
            EXPECT_EQ(db.value("select json_typeof($1::json)", ran.out), "object") << ran.err;
            if (words[0] == "status")
            {
                EXPECT_EQ(db.value("select $1::json -> 'pause' ->> 'reason'", ran.out), reason);
                EXPECT_EQ(db.value("select ($1::json ->> 'failed_events')", ran.out),
                          db.value("select failed_events from outbox.relay_status"));
            }
        }
    }

    OwnCluster server_{{{"shared_preload_libraries", ""}, {"outbox.bootstrap_servers", ""}}};
};

TEST_F(Digits, OfRandomEventsAreShownByEveryCommand)
{
    Hostile hostile(choose_seed());
    Db db = make_database("wide", "UTF8");
    add_events(db, hostile, 100);
    compare(db, connection(server_, "wide"), hostile);
}

// Encodings of databases, and a role whose settings change how everything is written.
TEST_F(Digits, AreTheSameWhateverTheEncodingAndTheRolesSettings)
{
    Db maker(server_, "postgres");
    maker.exec("create role odd superuser login");
    for (const char *setting :
         {"datestyle = 'SQL, DMY'", "intervalstyle = 'sql_standard'", "extra_float_digits = -15",
          "bytea_output = 'escape'", "timezone = 'Asia/Kolkata'",
          "standard_conforming_strings = off", "backslash_quote = off",
          "search_path = hostile, pg_catalog", "quote_all_identifiers = on",
          "client_encoding = 'LATIN1'", "default_transaction_isolation = 'serializable'",
          "xmlbinary = 'hex'", "array_nulls = off"})
        maker.exec(std::string("alter role odd set ") + setting);
    for (const char *encoding : {"LATIN1", "EUC_JP", "SQL_ASCII", "UTF8"})
    {
        const std::string name = "odd_" + ctl::lower(encoding);
        Hostile hostile(choose_seed(), std::string(encoding) != "UTF8");
        Db db = make_database(name, encoding);
        db.exec("create schema hostile");
        db.exec(
            "create function hostile.clock_timestamp() returns timestamptz language sql as 'select "
            "timestamptz ''-infinity'''");
        db.exec(
            "create function hostile.jsonb_each(jsonb) returns text language sql as 'select null'");
        db.exec("create function hostile.lie(text, text) returns boolean language sql as 'select "
                "false'");
        db.exec(
            "create operator hostile.= (leftarg = text, rightarg = text, function = hostile.lie)");
        add_events(db, hostile, 12);
        compare(db, connection(server_, name, "odd"), hostile);
    }
}

// What is quoted in a message is cut between the characters of the database's encoding.
TEST_F(Digits, MessagesAreCutBetweenCharacters)
{
    for (const char *encoding : {"EUC_JP", "UTF8"})
    {
        Db db = make_database("cut_" + ctl::lower(encoding), encoding);
        for (const char *ascii : {"", "a", "aa"})
        {
            const std::string type = db.value("select $1::text || repeat('漢', 300)", ascii);
            for (const char *call :
                 {"select outbox.emit($1, '1', 'x', '{}')",
                  "select outbox.emit('a', '1', 'x', '{}', jsonb_build_object('id', 1, $1::text, "
                  "2))",
                  "select outbox.idempotency_begin('a', 'b', sha256('x'), mode => $1)",
                  "insert into outbox.routes (aggregate_type, topic) values ('a', $1)"})
            {
                try
                {
                    db.exec(call, type);
                    ADD_FAILURE() << call;
                }
                catch (const SqlError &error)
                {
                    EXPECT_EQ(error.sqlstate(), "22023") << call << ": " << error.what();
                    EXPECT_TRUE(ctl::is_utf8(error.what())) << call;
                }
            }
        }
    }
}

class DigitsOfKafka : public CtlTest
{
};

TEST_F(DigitsOfKafka, AreThoseOfTheDatabase)
{
    Hostile hostile(choose_seed());
    int sent = 0;
    for (int i = 0; i < 60; i++)
    {
        try
        {
            db_.exec("select outbox.emit($1, $2, $3, $4::jsonb, $5::jsonb)", database_.type(),
                     hostile.text(1), hostile.text(1), hostile.json(),
                     hostile.below(2) == 0 ? Param() : Param(hostile.headers()));
            sent++;
        }
        catch (const SqlError &error)
        {
            EXPECT_NE(error.sqlstate(), "") << error.what();
        }
    }
    ASSERT_GT(sent, 10);
    const std::string count = std::to_string(sent);
    const Words words = {"tail", "-t", database_.topic(), "-b", "-n", count};
    expect_harmless(ctl(words).out);
    Words json = words;
    json.emplace_back("--json");
    const Ran ran = ctl(json);
    EXPECT_EQ(ran.status, 0) << ran.err;
    expect_harmless(ran.out);
    EXPECT_EQ(
        db_.value("select count(*) from unnest(string_to_array(rtrim($1, E'\\n'), E'\\n')) line "
                  "cross join lateral (select line::json) l (j) join outbox.events e on e.id = "
                  "(j ->> 'id')::uuid and j ->> 'payload' = e.payload::text and j ->> 'key' = "
                  "e.aggregate_id and j ->> 'event_type' = e.event_type where not exists ("
                  "select from jsonb_each_text(coalesce(e.headers, '{}')) h where h.value is "
                  "distinct from j -> 'headers' ->> h.key)",
                  ran.out),
        count)
        << ran.out;
}

} // namespace

} // namespace outbox::test
