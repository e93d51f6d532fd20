// subscriptions list, create, alter, drop; and --subscription of the other commands
#include "ctl.h"

#include "pty.h"

namespace outbox::test
{

namespace
{

class CtlSubscriptions : public CtlTest
{
protected:
    std::string topic() const { return "other." + database_.type(); }

    void create(const std::string &name = "other", const Words &more = {})
    {
        if (!has_topic_)
            kafka().create_topic(topic());
        has_topic_ = true;
        Words words = {"subscriptions",
                       "create",
                       name,
                       "-o",
                       "bootstrap_servers=" + kafka().bootstrap(),
                       "-o",
                       "topic_template=other.{aggregate_type}",
                       "-o",
                       "max_attempts=1"};
        words.insert(words.end(), more.begin(), more.end());
        const Ran ran = ctl(words);
        EXPECT_EQ(ran.status, 0) << ran.err;
        EXPECT_EQ(ran.out, name + "  is created\n");
    }
    bool becomes(const std::string &state, const std::string &name = "other")
    {
        return wait_until(kCtlLimit,
                          [&]
                          {
                              return db_.value("select state from outbox.subscription_status "
                                               "where name = $1",
                                               name) == state;
                          });
    }
    Json status_of(const std::string &name = "other") const
    {
        return ctl({"status", "--subscription", name, "--json"}).json();
    }

    // Of what doctor finds with these words; empty: nothing.
    std::string level_of(const std::string &words) const
    {
        const Json report = ctl({"doctor", "--json"}).json();
        for (const Json &item : report["findings"])
            if (item["text"].get<std::string>().find(words) != std::string::npos)
                return item["level"];
        return "";
    }

private:
    bool has_topic_ = false;
};

TEST_F(CtlSubscriptions, AreCreatedListedAlteredAndDropped)
{
    EXPECT_EQ(ctl({"subscriptions", "list"}).out,
              "There are no subscriptions besides the default one.\n");
    create("other",
           {"--type", database_.type(), "--event-type", "order.*", "--event-type", "paid"});
    ASSERT_TRUE(becomes("running"));
    emit("1");
    ASSERT_TRUE(wait_until(kCtlLimit, [&] { return status_of()["published_total"] == 1; }))
        << status_of().dump();
    const Json listed = ctl({"subscriptions", "list", "--json"}).json();
    ASSERT_EQ(listed["subscriptions"].size(), 1U) << listed.dump();
    const Json one = listed["subscriptions"][0];
    EXPECT_EQ(one["name"], "other");
    EXPECT_EQ(one["state"], "running");
    EXPECT_EQ(one["event_types"], (Json{"order.*", "paid"}));
    for (const char *member : {"sink", "pid", "published_total", "failed_events", "oldest_event_at",
                               "backlog_age_seconds", "last_error", "config_error", "detached_at",
                               "detached_by", "holds_ring_seconds", "created_at", "created_by",
                               "consecutive_failures", "next_attempt_at"})
        EXPECT_TRUE(one.contains(member)) << member;
    const std::string table = ctl({"subscriptions", "list"}).out;
    EXPECT_NE(table.find("SUBSCRIPTION"), std::string::npos) << table;
    EXPECT_NE(table.find("other"), std::string::npos) << table;
    EXPECT_NE(ctl({"status"}).out.find("SUBSCRIPTION"), std::string::npos);
    EXPECT_EQ(ctl({"status", "--json"}).json()["subscriptions"].size(), 1U);
    EXPECT_NE(ctl({"status", "--subscription", "other"}).out.find("Takes"), std::string::npos);

    EXPECT_EQ(ctl({"subscriptions", "alter", "other", "--options",
                   R"({"bootstrap_servers": "127.0.0.1:1", "backoff_max": "1s"})", "--json"})
                  .json(),
              (Json{{"name", "other"}, {"changed", true}}));
    ASSERT_TRUE(wait_until(kCtlLimit,
                           [&]
                           {
                               return db_.value("select options ->> 'backoff_max' from "
                                                "outbox.subscriptions") == "1s";
                           }));
    EXPECT_EQ(ctl({"subscriptions", "drop", "other"}).status, 2) << "it has to be confirmed";
    const Ran dropped = ctl({"subscriptions", "drop", "other", "--yes"});
    EXPECT_EQ(dropped.out, "other  is dropped\n") << dropped.err;
    EXPECT_EQ(db_.value("select count(*) from outbox.subscriptions"), "0");
    const Ran gone = ctl({"status", "--subscription", "other", "--json"});
    EXPECT_EQ(gone.status, 1);
    EXPECT_EQ(gone.error_json()["error"]["sqlstate"], "42704");
}

TEST_F(CtlSubscriptions, OneThatWasDetachedIsAttached)
{
    create("other");
    ASSERT_TRUE(becomes("running"));
    EXPECT_EQ(ctl({"subscriptions", "attach", "other"}).status, 2) << "from where is not said";
    Ran ran = ctl({"subscriptions", "attach", "other", "--start", "retained"});
    EXPECT_EQ(ran.status, 1) << ran.err;
    EXPECT_NE(ran.err.find("is not detached"), std::string::npos) << ran.err;
    // As the relay of default does it.
    db_.exec("with d as (update outbox.subscriptions set detached_at = now() where name = 'other' "
             "returning name) insert into outbox.subscription_history "
             "(subscription, number, since, takes) select d.name, 2, pg_current_snapshot(), false "
             "from d");
    const std::string examined = ctl({"doctor"}).out;
    EXPECT_NE(examined.find("longer than max_lag"), std::string::npos) << examined;
    EXPECT_NE(examined.find("outboxctl subscriptions attach other --start retained"),
              std::string::npos)
        << examined;
    EXPECT_EQ(level_of("subscription other is detached"), "problem");
    ran = ctl({"subscriptions", "attach", "other", "--start", "retained"});
    EXPECT_EQ(ran.out, "other  is attached\n") << ran.err;
    EXPECT_TRUE(becomes("running"));
}

TEST_F(CtlSubscriptions, OneIsDetachedAndDefaultWhereThereIsNoKafka)
{
    create("other");
    ASSERT_TRUE(becomes("running"));
    emit("1");
    EXPECT_EQ(db_.value("select outbox.drain('20 s')"), "t");
    EXPECT_EQ(ctl({"subscriptions", "detach", "other"}).status, 2) << "it has to be confirmed";
    EXPECT_EQ(ctl({"subscriptions", "detach", "other", "--yes"}).out,
              "other  is detached, with 0 events that it had not sent\n");
    EXPECT_EQ(status_of()["state"], "detached");
    // Somebody has meant that, so it is told, and no more.
    EXPECT_EQ(level_of("subscription other is detached"), "note");
    EXPECT_EQ(level_of("nobody gets the events"), "");
    EXPECT_EQ(status_of()["detached_by"], db_.value("select session_user"));
    EXPECT_EQ(ctl({"subscriptions", "detach", "other", "--yes"}).status, 1);
    EXPECT_EQ(ctl({"subscriptions", "drop", "other", "--yes"}).status, 0);

    EXPECT_EQ(ctl({"subscriptions", "detach", "default", "--yes", "--json"}).json(),
              (Json{{"name", "default"}, {"changed", true}, {"unsent_events", 0}}));
    ASSERT_TRUE(database_.reaches_state("detached"));
    EXPECT_EQ(ctl({"status", "--json"}).json()["state"], "detached");
    EXPECT_NE(ctl({"status"}).out.find("none is needed"), std::string::npos);
    db_.exec("alter database " + database_.name() + " set outbox.bootstrap_servers = ''");
    const Ran doctor = ctl({"doctor", "--json"});
    EXPECT_EQ(doctor.json()["problems"], 0) << doctor.out;
    EXPECT_NE(doctor.out.find("there need be no Kafka"), std::string::npos) << doctor.out;
    EXPECT_EQ(level_of("nobody gets the events"), "warning");
    EXPECT_EQ(ctl({"subscriptions", "attach", "default", "--start", "now"}).out,
              "default  is attached\n");
    EXPECT_TRUE(database_.reaches_state("not_configured"));
    EXPECT_NE(ctl({"doctor"}).out.find("subscriptions detach default"), std::string::npos);
}

TEST_F(CtlSubscriptions, NoErrorQuotesASecretAmongOptions)
{
    const std::string secret = "hunter2secret";
    for (const Words &words :
         {Words{"-o", "bootstrap_servers=127.0.0.1:1", "-o",
                "kafka_config=sasl.mechanism=PLAIN,sasl.password=" + secret},
          Words{"-o", "bootstrap_servers=127.0.0.1:1", "-o",
                "kafka_config=sasl.password=" + secret + ",no.such.property=1"},
          Words{"--options", "{\"kafka_config\": \"sasl.password=" + secret + "\""},
          Words{"--options", "[\"" + secret + "\"]"},
          Words{"-o", "bootstrap_servers=127.0.0.1:1", "-o",
                "kafka_config=sasl.password=" + secret + ",,="}})
    {
        Words all = {"subscriptions", "create", "secret"};
        all.insert(all.end(), words.begin(), words.end());
        const Ran ran = ctl(all);
        EXPECT_EQ((ran.out + ran.err).find(secret), std::string::npos) << ran.err;
        (void) ctl({"subscriptions", "drop", "secret", "--yes"});
    }
    EXPECT_EQ(ctl({"subscriptions", "create", "s"}).status, 2);
    EXPECT_EQ(ctl({"subscriptions", "create", "s", "-o", "nothing"}).status, 2);
    EXPECT_EQ(ctl({"subscriptions", "create", "s", "--start", "then", "-o", "a=b"}).status, 2);
}

TEST_F(CtlSubscriptions, WhatOneHasSetAsideIsListedAndSettledForIt)
{
    // As if its Kafka had refused the event, too; the broker refuses one relay's at a time.
    const std::string id = emit_refused("1");
    create();
    ASSERT_TRUE(becomes("running"));
    (void) ctl({"pause", "--subscription", "other"});
    ASSERT_TRUE(becomes("paused"));
    db_.exec("insert into outbox.deliveries (seq, xid, slot, event_id, lane, topic, partition_key, "
             "state, blocking, attempts, last_error, failed_at, subscription) "
             "select seq, xid, slot, event_id, lane, $1, partition_key, state, blocking, attempts, "
             "last_error, failed_at, 'other' from outbox.deliveries",
             topic());
    ASSERT_TRUE(wait_until(kCtlLimit, [&] { return status_of()["failed_events"] == 1; }))
        << status_of().dump();
    const Json all = ctl({"failed", "list", "--json"}).json();
    EXPECT_EQ(all["events"].size(), 2U) << all.dump();
    const Json its = ctl({"failed", "list", "--subscription", "other", "--json"}).json();
    ASSERT_EQ(its["events"].size(), 1U) << its.dump();
    EXPECT_EQ(its["events"][0]["subscription"], "other");
    EXPECT_EQ(its["events"][0]["topic"], topic());
    EXPECT_EQ(ctl({"failed", "list", "--state", "all", "--subscription", "other", "--json"})
                  .json()["events"]
                  .size(),
              1U);
    EXPECT_NE(ctl({"failed", "list"}).out.find("subscription other, " + topic()),
              std::string::npos);
    const Json shown = ctl({"failed", "show", id, "--subscription", "other", "--json"}).json();
    EXPECT_EQ(shown["events"][0]["status"], "FAILED");
    EXPECT_EQ(shown["events"][0]["topic"], topic());

    // A count for a question is that of one of them.
    const Ran many = ctl({"failed", "retry", "--all"});
    EXPECT_NE(many.err.find("1 event would be tried again"), std::string::npos) << many.err;
    EXPECT_EQ(ctl({"failed", "discard", id, "--subscription", "other", "--reason", "test"}).status,
              0);
    EXPECT_EQ(db_.column("select subscription || ' ' || state from outbox.deliveries order by 1"),
              (std::vector<std::string>{"default FAILED", "other DISCARDED"}));
    EXPECT_EQ(ctl({"failed", "retry", id, "--subscription", "other"}).status, 1);
    EXPECT_EQ(ctl({"failed", "retry", id, "--subscription", "none", "--json"})
                  .json()["events"][0]["error"]["sqlstate"],
              "42704");
}

TEST_F(CtlSubscriptions, PauseResumeReplayAndTailTakeOne)
{
    create();
    ASSERT_TRUE(becomes("running"));
    EXPECT_EQ(ctl({"pause", "--subscription", "other", "--reason", "r", "--json"}).json(),
              (Json{{"paused", true}, {"changed", true}}));
    ASSERT_TRUE(becomes("paused"));
    const std::string id = emit("1");
    EXPECT_EQ(ctl({"resume", "--json"}).json()["changed"], false) << "default is not paused";
    EXPECT_EQ(ctl({"resume", "--subscription", "other", "--json"}).json()["changed"], true);
    ASSERT_TRUE(wait_until(kCtlLimit, [&] { return status_of()["published_total"] == 1; }));
    const Ran tail =
        ctl({"tail", "-b", "-n", "1", "-t", topic(), "--subscription", "other", "--json"});
    EXPECT_EQ(tail.json()["id"], id) << tail.err;
    EXPECT_EQ(tail.json()["topic"], topic());

    const Ran replayed = ctl({"replay", "--subscription", "other", "--yes", "--json"});
    EXPECT_EQ(replayed.status, 0) << replayed.err;
    EXPECT_EQ(replayed.json()["subscription"], "other");
    EXPECT_EQ(replayed.json()["published"], 1);
    EXPECT_EQ(
        ctl({"replays", "list", "--subscription", "other", "--json"}).json()["replays"].size(), 2U);
    EXPECT_EQ(
        ctl({"replays", "list", "--subscription", "default", "--json"}).json()["replays"].size(),
        0U);
    EXPECT_NE(ctl({"replays", "list"}).out.find("--subscription other"), std::string::npos);
}

// A name that is misspelt is no list without entries, as if all were well with it.
TEST_F(CtlSubscriptions, ANameThatThereIsNotIsAnErrorOfEachCommand)
{
    create();
    const std::string id = "01a21319-0c34-776c-8d13-78a219c2b350";
    for (const Words &words : std::vector<Words>{{"status"},
                                                 {"failed", "list"},
                                                 {"failed", "list", "--state", "all"},
                                                 {"failed", "show", id},
                                                 {"failed", "retry", "--all", "--yes"},
                                                 {"failed", "retry", "--type", "a", "--yes"},
                                                 {"failed", "retry", id},
                                                 {"failed", "discard", id, "--reason", "r"},
                                                 {"replay", "--type", "a", "--yes"},
                                                 {"replays", "list"},
                                                 {"pause"},
                                                 {"resume"},
                                                 {"tail"}})
    {
        Words named = words;
        named.insert(named.end(), {"--subscription", "othre", "--json"});
        const Ran ran = ctl(named);
        EXPECT_EQ(ran.status, 1) << words[0] << ' ' << ran.out << ran.err;
        EXPECT_NE((ran.out + ran.err).find("there is no subscription"), std::string::npos)
            << words[0] << ' ' << ran.out << ran.err;
    }
    for (const std::string name : {"default", "other"})
    {
        EXPECT_EQ(ctl({"failed", "list", "--subscription", name}).status, 0);
        EXPECT_EQ(ctl({"failed", "retry", "--all", "--yes", "--subscription", name}).status, 0);
        EXPECT_EQ(ctl({"replays", "list", "--subscription", name}).status, 0);
    }
}

TEST_F(CtlSubscriptions, DoctorSaysWhatIsWrongWithEach)
{
    create();
    create("dead", {"-o", "bootstrap_servers=127.0.0.1:1"});
    ASSERT_TRUE(becomes("running"));
    emit("1");
    ASSERT_TRUE(becomes("backing_off", "dead"));
    const auto found = [&](const std::string &text, const std::string &level)
    {
        const Json json = ctl({"doctor", "--json"}).json();
        for (const Json &finding : json["findings"])
            if (finding["area"] == "subscriptions" && finding["level"] == level &&
                finding["text"].get<std::string>().find(text) != std::string::npos)
                return true;
        return false;
    };
    EXPECT_TRUE(found("subscription other is running", "ok"));
    // Of any sink, so not "Kafka".
    EXPECT_TRUE(found("subscription dead is backing_off: its destination takes", "problem"));
    // As the ring's maintenance writes it.
    db_.exec("update outbox.ring set held_back_since = clock_timestamp() - interval '1 hour', "
             "held_back_by = 'events that subscription dead has not passed' where slot = 7");
    EXPECT_TRUE(found("events are kept for subscription dead alone, for 1 h", "warning"));
    EXPECT_TRUE(status_of("other")["holds_ring_seconds"].is_null());
    (void) ctl({"pause", "--subscription", "other"});
    ASSERT_TRUE(becomes("paused"));
    EXPECT_TRUE(found("subscription other is paused", "warning"));
}

TEST_F(CtlSubscriptions, MonitorsSeeThemAndOthersAreToldWhatToGrant)
{
    create();
    const std::string role = new_role();
    db_.exec("select outbox.grant_monitor('" + role + "')");
    EXPECT_EQ(ctl_as(role, {"subscriptions", "list", "--json"}).json()["subscriptions"].size(), 1U);
    EXPECT_EQ(ctl_as(role, {"subscriptions", "drop", "other", "--yes"}).status, 5);
    db_.exec("revoke select on outbox.subscription_status from " + role);
    const Ran ran = ctl_as(role, {"subscriptions", "list"});
    EXPECT_EQ(ran.status, 5);
    EXPECT_NE(ran.err.find("grant_monitor"), std::string::npos) << ran.err;
    EXPECT_TRUE(ctl_as(role, {"status", "--json"}).json()["subscriptions"].is_null());
}

} // namespace

} // namespace outbox::test
