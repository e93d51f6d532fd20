// replay, replays list, replays cancel
#include "ctl.h"
#include "pty.h"

namespace outbox::test
{

namespace
{

class Replays : public CtlTest
{
protected:
    // Events that are published.
    void emit_many(int count)
    {
        db_.exec("select outbox.emit($1, n::text, 'order.paid', '{}') "
                 "from generate_series(1, $2::int) n",
                 database_.type(), count);
        EXPECT_EQ(db_.value("select outbox.drain('20 s')"), "t");
    }
    std::string running(const std::string &what)
    {
        std::string found;
        wait_until(std::chrono::seconds(10),
                   [&]
                   {
                       const Result rows = db_.exec("select " + what +
                                                    " from outbox.replays where state = 'RUNNING'");
                       found = rows.rows() > 0 ? rows.text(0) : "";
                       return !found.empty();
                   });
        return found;
    }
};

TEST_F(Replays, ADryRunTellsTheCountAndDoesNothing)
{
    emit_many(5);
    const Ran ran = ctl({"replay", "--type", database_.type(), "--max", "3", "--dry-run"});
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(ran.out, "the oldest 3 of 5 events that match would be replayed; about 30 ms.\n");
    EXPECT_EQ(ran.err, "");
    const Json json = ctl({"replay", "--since", "1h", "--dry-run", "--json"}).json();
    EXPECT_EQ(json["state"], "DRY_RUN");
    EXPECT_EQ(json["total"], 5);
    EXPECT_EQ(json["matching"], 5);
    EXPECT_EQ(json["replay_id"].get<std::string>().size(), 36U);
    EXPECT_EQ(ctl({"replay", "--until", "1h", "--dry-run"}).out, "There are no such events.\n");
    EXPECT_EQ(ctl({"replay", "--since", "2020-01-01", "--dry-run", "--json"}).json()["total"], 5);
    EXPECT_EQ(ctl({"replay", "--since", "soon"}).status, 1);
    EXPECT_EQ(db_.value("select count(*) from outbox.replays where state <> 'DRY_RUN'"), "0");
}

TEST_F(Replays, NothingGoesOutWithoutAYesAndWithItTheEndIsTold)
{
    emit_many(5);
    Ran ran = ctl({"replay"});
    EXPECT_EQ(ran.status, 2);
    EXPECT_NE(ran.err.find("5 events would be replayed"), std::string::npos) << ran.err;
    EXPECT_NE(ran.err.find("--yes"), std::string::npos) << ran.err;
    const Json json = ctl({"replay", "--yes", "--json"}).json();
    EXPECT_EQ(json["state"], "DONE");
    EXPECT_EQ(json["published"], 5);
    ran = ctl({"replay", "--event-type", "order.paid", "--id", "3", "--topic",
               database_.topic() + ".again", "--yes"});
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_NE(ran.out.find("is done: 1 event published again."), std::string::npos) << ran.out;

    const Json list = ctl({"replays", "list", "--limit", "3", "--json"}).json();
    ASSERT_EQ(list["replays"].size(), 3U);
    EXPECT_EQ(list["more"], true);
    EXPECT_EQ(list["replays"][0]["aggregate_id"], "3");
    EXPECT_EQ(list["replays"][0]["state"], "DONE");
    const std::string text = ctl({"replays", "list"}).out;
    EXPECT_NE(text.find("--id 3 --topic"), std::string::npos) << text;
    EXPECT_NE(text.find("dry_run"), std::string::npos) << text;
}

TEST_F(Replays, OnATerminalThePersonIsAskedWithTheCountAndSeesHowFarItIs)
{
    emit_many(60);
    const Environment environment = connection(cluster(), database_.name());
    {
        Pty terminal({outboxctl(), "replay", "--max", "30", "--rate", "30"}, environment);
        ASSERT_TRUE(terminal.shows("Replay the oldest 30 of 60 events that match, 30 a second "
                                   "(about 1.0 s)? [y/N]"))
            << terminal.output();
        terminal.type("n\n");
        EXPECT_EQ(terminal.ends(std::chrono::seconds(10)), 130);
        EXPECT_NE(terminal.output().find("Nothing was done"), std::string::npos);
    }
    Pty terminal({outboxctl(), "replay", "--max", "30", "--rate", "30"}, environment);
    ASSERT_TRUE(terminal.shows("[y/N]")) << terminal.output();
    terminal.type("y\n");
    EXPECT_TRUE(terminal.shows("of 30, ")) << terminal.output();
    EXPECT_EQ(terminal.ends(std::chrono::seconds(20)), 0) << terminal.output();
    EXPECT_NE(terminal.output().find("30 events published again"), std::string::npos)
        << terminal.output();
}

TEST_F(Replays, CtrlCLetsItGoOnAndCancelEndsIt)
{
    emit_many(60);
    Pty terminal({outboxctl(), "replay", "--rate", "5", "--yes"},
                 connection(cluster(), database_.name()));
    ASSERT_TRUE(terminal.shows("of 60, ")) << terminal.output();
    const std::string id = running("replay_id");
    terminal.type("\3");
    EXPECT_EQ(terminal.ends(std::chrono::seconds(10)), 130);
    EXPECT_NE(terminal.output().find("outboxctl replays cancel " + id), std::string::npos)
        << terminal.output();
    EXPECT_EQ(running("replay_id"), id);

    // A detached one waits for its turn.
    const std::string next = ctl({"replay", "--max", "1", "--yes", "--detach", "--json"})
                                 .json()["replay_id"]
                                 .get<std::string>();
    const Ran ran = ctl({"replays", "cancel", id});
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(ran.out, id + "  is cancelled\n");
    EXPECT_EQ(ctl({"replays", "cancel", id, "--json"}).json(),
              (Json{{"replay_id", id}, {"changed", false}}));
    EXPECT_TRUE(wait_until(std::chrono::seconds(10),
                           [&]
                           {
                               return db_.value("select state from outbox.replays where replay_id "
                                                "= $1",
                                                next) == "DONE";
                           }));
    EXPECT_EQ(ctl({"replays", "cancel", "00000000-0000-0000-0000-000000000000"}).status, 1);
}

// A second apart, so each is a request of its own.
TEST_F(Replays, WhatKafkaRefusesIsToldAndTheExitCodeIsFour)
{
    db_.exec("select outbox.emit($1, 'one key', 'order.paid', '{}') from generate_series(1, 2)",
             database_.type());
    ASSERT_EQ(db_.value("select outbox.drain('20 s')"), "t");
    broker().command("fail Produce MSG_SIZE_TOO_LARGE 1");
    const Ran ran = ctl({"replay", "--rate", "1", "--yes"});
    broker().command("clear Produce");
    EXPECT_EQ(ran.status, 4) << ran.err;
    EXPECT_NE(ran.out.find("1 event published again"), std::string::npos) << ran.out;
    EXPECT_NE(ran.out.find("1 event refused"), std::string::npos) << ran.out;
    EXPECT_NE(ran.out.find("Last error: event with seq 1: MSG_SIZE_TOO_LARGE"), std::string::npos)
        << ran.out;
}

} // namespace

} // namespace outbox::test
