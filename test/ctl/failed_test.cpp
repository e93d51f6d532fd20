// failed list, show, retry, discard
#include <atomic>
#include <thread>

#include "ctl.h"
#include "pty.h"

namespace outbox::test
{

namespace
{

constexpr const char *kUnknown = "00000000-0000-0000-0000-000000000000";

class Failed : public CtlTest
{
protected:
    std::string failed_count() { return db_.value("select count(*) from outbox.dead_letters"); }
};

TEST_F(Failed, AnEmptyListIsNoError)
{
    const Ran ran = ctl({"failed", "list"});
    EXPECT_EQ(ran.status, 0);
    EXPECT_EQ(ran.out, "There are no such events.\n");
    EXPECT_EQ(ctl({"failed", "list", "--json"}).json(),
              (Json{{"events", Json::array()}, {"more", false}}));
}

TEST_F(Failed, ListAndShowTellWhatHappened)
{
    const std::string id = emit_refused("77");
    const std::string next =
        db_.value("select outbox.emit($1, '77', 'order.next', '{}')", database_.type());
    EXPECT_TRUE(
        wait_until(std::chrono::seconds(10), [&]
                   { return db_.value("select waiting_behind from outbox.dead_letters") == "1"; }));
    const Json event = ctl({"failed", "list", "--json"}).json()["events"].at(0);
    EXPECT_EQ(event["id"], id);
    EXPECT_EQ(event["state"], "FAILED");
    EXPECT_EQ(event["topic"], database_.topic());
    EXPECT_EQ(event["key"], "77");
    EXPECT_EQ(event["waiting_behind"], 1);
    EXPECT_NE(event["last_error"].get<std::string>().find("MSG_SIZE_TOO_LARGE"), std::string::npos);
    const std::string text = ctl({"failed", "list"}).out;
    EXPECT_NE(text.find(id), std::string::npos) << text;
    EXPECT_NE(text.find("MSG_SIZE_TOO_LARGE"), std::string::npos) << text;

    const std::string status = ctl({"status"}).out;
    EXPECT_NE(status.find("Set aside  1 event behind others, the first "), std::string::npos)
        << status;
    EXPECT_EQ(ctl({"status", "--json"}).json()["waiting_events"], 1);
    EXPECT_NE(ctl({"doctor"}).out.find("set aside: 1 event behind others"), std::string::npos);

    const Json all = ctl({"failed", "list", "--state", "all", "--json"}).json()["events"];
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all[1]["id"], next);
    EXPECT_EQ(all[1]["state"], "WAITING");
    EXPECT_EQ(ctl({"failed", "list", "--state", "waiting", "--json"}).json()["events"].size(), 1U);
    EXPECT_EQ(ctl({"failed", "list", "--type", "other", "--json"}).json()["events"].size(), 0U);
    EXPECT_EQ(ctl({"failed", "list", "--event-type", "order.big", "--since", "1h", "--json"})
                  .json()["events"]
                  .size(),
              1U);

    const Json shown = ctl({"failed", "show", id, next, "--json"}).json()["events"];
    EXPECT_EQ(shown[0]["payload"], (Json{{"a", {1, 2}}}));
    EXPECT_EQ(shown[0]["status"], "FAILED");
    EXPECT_EQ(shown[0]["event_type"], "order.big");
    EXPECT_EQ(shown[1]["status"], "NEW");
    EXPECT_NE(ctl({"failed", "show", id}).out.find("order.big"), std::string::npos);
}

TEST_F(Failed, TheLimitSaysThatThereAreMore)
{
    emit_refused("1");
    emit_refused("2");
    const Json json = ctl({"failed", "list", "--limit", "1", "--json"}).json();
    EXPECT_EQ(json["events"].size(), 1U);
    EXPECT_EQ(json["more"], true);
    EXPECT_NE(ctl({"failed", "list", "--limit", "1"}).out.find("There are more"),
              std::string::npos);
}

TEST_F(Failed, ShowWritesBinaryPayloadsHarmlessly)
{
    const std::string id =
        db_.value(R"sql(select outbox.emit_bytes($1, E'1\u0007', 'x', '\x1b5b33316d00'))sql",
                  database_.type());
    const Ran ran = ctl({"failed", "show", id});
    EXPECT_NE(ran.out.find("\\x1b[31m\\x00"), std::string::npos) << ran.out;
    EXPECT_NE(ran.out.find("1\\x07"), std::string::npos) << ran.out;
    EXPECT_EQ(ran.out.find('\x1b'), std::string::npos);
    EXPECT_EQ(ctl({"failed", "show", id, "--json"}).json()["events"][0]["payload_base64"],
              "G1szMW0A");
}

TEST_F(Failed, RetryOfOneAsksNothingAndTellsWhatWasWrong)
{
    const std::string id = emit_refused("1");
    Ran ran = ctl({"failed", "retry", id});
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_NE(ran.out.find("is tried again now"), std::string::npos);
    EXPECT_EQ(db_.value("select outbox.wait_published($1::text::uuid)", id), "t");
    EXPECT_TRUE(wait_until(std::chrono::seconds(10), [&] { return failed_count() == "0"; }));

    ran = ctl({"failed", "retry", kUnknown});
    EXPECT_EQ(ran.status, 1);
    EXPECT_NE(ran.err.find("(42704)"), std::string::npos) << ran.err;
    EXPECT_NE(ran.err.find("Hint:"), std::string::npos) << ran.err;
}

TEST_F(Failed, OneThatCannotBeSettledDoesNotKeepTheOthers)
{
    const std::string id = emit_refused("1");
    const Ran ran =
        ctl({"failed", "discard", kUnknown, id, "--reason", "told the customer", "--json"});
    EXPECT_EQ(ran.status, 1);
    const Json events = ran.json()["events"];
    EXPECT_EQ(events[0]["ok"], false);
    EXPECT_EQ(events[0]["error"]["sqlstate"], "42704");
    EXPECT_EQ(events[1], (Json{{"id", id}, {"ok", true}, {"changed", true}, {"error", nullptr}}));
    EXPECT_EQ(db_.value("select reason from outbox.deliveries where state = 'DISCARDED'"),
              "told the customer");
    EXPECT_EQ(
        ctl({"failed", "discard", id, "-r", "again", "--json"}).json()["events"][0]["changed"],
        false);
}

TEST_F(Failed, ManyAreNotTriedAgainWithoutAYes)
{
    emit_refused("1");
    emit_refused("2");
    const Ran ran = ctl({"failed", "retry", "--all"});
    EXPECT_EQ(ran.status, 2) << ran.err;
    EXPECT_NE(ran.err.find("2 events"), std::string::npos) << ran.err;
    EXPECT_NE(ran.err.find("--yes"), std::string::npos) << ran.err;
    EXPECT_EQ(failed_count(), "2");
    EXPECT_EQ(ctl({"failed", "retry", "--type", "other", "--yes", "--json"}).json(),
              (Json{{"matched", 0}, {"retried", 0}}));
    EXPECT_EQ(failed_count(), "2");
    EXPECT_EQ(
        ctl({"failed", "retry", "--type", database_.type(), "--since", "1h", "--yes", "--json"})
            .json(),
        (Json{{"matched", 2}, {"retried", 2}}));
    EXPECT_TRUE(wait_until(std::chrono::seconds(10), [&] { return failed_count() == "0"; }));
}

// Each of them once, also those that have failed again before the last one was tried.
TEST_F(Failed, AllAreTriedAgainOnceEach)
{
    constexpr int kEvents = 2500;
    db_.exec("select outbox.pause('for the test')");
    db_.exec("select outbox.emit($1, 'k', 'e', '{}') from generate_series(1, $2::int)",
             database_.type(), kEvents);
    db_.exec("insert into outbox.deliveries (seq, xid, slot, event_id, lane, topic, partition_key, "
             "state, blocking, attempts, failed_at) select e.seq, e.xid, e.slot, e.id, e.seq, 't', "
             "e.aggregate_id, 'FAILED', false, 0, now() from outbox.events e");
    std::atomic<bool> over{false};
    std::thread relay(
        [&]
        {
            Db db = database_.connect();
            while (!over)
                db.exec("update outbox.deliveries set state = 'FAILED', attempts = attempts + 1 "
                        "where state = 'RETRYING'");
        });
    const Ran ran = ctl({"failed", "retry", "--all", "--yes", "--json"});
    const auto tried_again = [&]
    { return db_.value("select count(*) from outbox.deliveries where attempts = 1"); };
    EXPECT_TRUE(wait_until(std::chrono::seconds(10),
                           [&] { return tried_again() == std::to_string(kEvents); }))
        << tried_again();
    over = true;
    relay.join();
    EXPECT_EQ(ran.json(), (Json{{"matched", kEvents}, {"retried", kEvents}}));
}

TEST_F(Failed, OnATerminalThePersonIsAskedWithTheCount)
{
    emit_refused("1");
    emit_refused("2");
    for (const bool agree : {false, true})
    {
        Pty terminal({outboxctl(), "failed", "retry", "--all"},
                     connection(cluster(), database_.name()));
        ASSERT_TRUE(terminal.shows("Try 2 failed events again? [y/N]")) << terminal.output();
        terminal.type(agree ? "y\n" : "\n");
        EXPECT_EQ(terminal.ends(std::chrono::seconds(10)), agree ? 0 : 130);
        EXPECT_NE(terminal.output().find(agree ? "2 events tried again now" : "Nothing was done"),
                  std::string::npos)
            << terminal.output();
        if (!agree)
        {
            EXPECT_EQ(failed_count(), "2");
        }
    }
    EXPECT_TRUE(wait_until(std::chrono::seconds(10), [&] { return failed_count() == "0"; }));
}

TEST_F(Failed, StatusPointsToThem)
{
    emit_refused("1");
    EXPECT_NE(ctl({"status"}).out.find("1 event; see \"outboxctl failed list\""),
              std::string::npos);
    EXPECT_EQ(ctl({"status", "--json"}).json()["failed_events"], 1);
}

} // namespace

} // namespace outbox::test
