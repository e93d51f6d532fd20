// A server whose every column, of whatever type, has escape sequences: none reaches the terminal.
#include <atomic>

#include "ctl.h"
#include "support/fake_server.h"

namespace outbox::test
{

namespace
{

// For whatever is asked: a row with all columns that any command wants.
std::string
answer(const std::string & /*sql*/)
{
    std::vector<Column> row = {
        {"open", 16, "t"}, {"ok", 16, "t"}, {"may_see_pause", 16, "t"}, {"taken", 16, "t"}};
    for (const char *name : {"own",
                             "name",
                             "id",
                             "time",
                             "database",
                             "state",
                             "status",
                             "pid",
                             "last_error",
                             "config_error",
                             "bootstrap_servers",
                             "paused_at",
                             "by",
                             "reason",
                             "topic",
                             "key",
                             "partition_key",
                             "aggregate_type",
                             "aggregate_id",
                             "event_type",
                             "schema_version",
                             "created_at",
                             "published_at",
                             "failed_at",
                             "next_attempt_at",
                             "headers",
                             "payload",
                             "payload_bytes",
                             "value",
                             "replay_id",
                             "since",
                             "until",
                             "requested_by",
                             "ended_at",
                             "oldest_event_at",
                             "oldest_waiting_at",
                             "at"})
        row.push_back({name, 25, "\x1b]0;title\x07\x1b[31m\xc2\x9b"});
    for (const char *name : {"backlog_events",
                             "backlog_age_seconds",
                             "in_flight_events",
                             "in_flight_bytes",
                             "published_total",
                             "published_ago",
                             "failed_events",
                             "retrying_events",
                             "waiting_events",
                             "waiting_age_seconds",
                             "consecutive_failures",
                             "next_attempt_in",
                             "last_error_ago",
                             "seconds",
                             "attempts",
                             "waiting_behind",
                             "age",
                             "seq",
                             "total",
                             "matching",
                             "published",
                             "refused",
                             "missing",
                             "percent",
                             "remaining_seconds",
                             "retrying",
                             "waiting",
                             "failed",
                             "count"})
        row.push_back({name, 20, "1"});
    return one_row(row) + message('C', text("SELECT 1"));
}

TEST(Escapes, OfAServerReachNoTerminal)
{
    std::atomic<bool> there{true}; // the extension; or its schema has another name
    const FakeServer server(
        [&](const Conversation &client)
        {
            (void) client.startup();
            client.serve(
                [&](const std::string &sql)
                { return there && asks_for_extension(sql) ? extension_is_there() : answer(sql); });
        });
    for (const Words &words :
         {Words{"status"}, Words{"lag", "--sample", "0"}, Words{"emit", "a", "b", "c", "{}"},
          Words{"failed", "list"}, Words{"failed", "list", "--state", "all"},
          Words{"failed", "show", "1"}, Words{"replays", "list"}, Words{"replay", "--yes"},
          Words{"replay", "--yes", "--detach"}, Words{"doctor"}})
        for (const int way : {0, 1, 2, 3})
        {
            const bool json = way % 2 != 0;
            there = way < 2;
            Words all = words;
            if (json)
                all.emplace_back("--json");
            const Ran ran = ctl(server.environment(), all);
            EXPECT_NE(ran.out + ran.err, "") << words[0];
            for (const char *part : {"\x1b", "\x07", "\xc2\x9b"})
                EXPECT_EQ((ran.out + ran.err).find(part), std::string::npos)
                    << words[0] << ": " << ran.out << ran.err;
        }
}

// As JSON it would be passed on.
TEST(Escapes, WhatIsSentAsJsonAndIsNoneIsAnError)
{
    constexpr int kJson = 114;
    constexpr int kJsonb = 3802;
    std::string sent;
    int type = kJson;
    const FakeServer server(
        [&](const Conversation &client)
        {
            (void) client.startup();
            client.serve(
                [&](const std::string &sql)
                {
                    if (asks_for_extension(sql))
                        return extension_is_there();
                    return one_row({{"open", 16, "t"},
                                    {"name", 25, "d"},
                                    {"id", 25, "1"},
                                    {"status", 25, "FAILED"},
                                    {"payload", type, sent}}) +
                           message('C', text("SELECT 1"));
                });
        });
    for (const char *bad : {"{\"a\":}", "", "]", "1,\"pid\":2", "tru", "\"", "[1 2]"})
        for (const int one : {kJson, kJsonb})
        {
            sent = bad;
            type = one;
            for (const Words &words : {Words{"status", "--json"}, Words{"failed", "show", "1"},
                                       Words{"failed", "show", "1", "--json"}})
            {
                const Ran ran = ctl(server.environment(), words);
                EXPECT_EQ(ran.status, 1) << bad << ran.out << ran.err;
                EXPECT_EQ(ran.out, "") << bad;
                EXPECT_NE(ran.err.find("that is none"), std::string::npos) << bad << ran.err;
            }
        }
}

} // namespace

} // namespace outbox::test
