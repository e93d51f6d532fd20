// doctor
#include "ctl.h"

namespace outbox::test
{

namespace
{

class Doctor : public CtlTest
{
protected:
    Json doctor(const Words &more = {}) const
    {
        Words words = {"doctor", "--json"};
        words.insert(words.end(), more.begin(), more.end());
        return ctl(words).json();
    }
};

// The first finding whose text holds `text`; null when there is none.
Json
finding(const Json &report, const std::string &text)
{
    for (const Json &item : report["findings"])
        if (item["text"].get<std::string>().find(text) != std::string::npos)
            return item;
    return nullptr;
}

TEST_F(Doctor, AHealthyDatabaseHasNoProblem)
{
    emit("1");
    const Ran ran = ctl({"doctor", "--json"});
    EXPECT_EQ(ran.status, 0) << ran.out;
    const Json report = ran.json();
    EXPECT_EQ(report["problems"], 0) << report;
    EXPECT_EQ(finding(report, "loaded library are version 0.3")["level"], "ok") << report;
    EXPECT_EQ(finding(report, "the relay is running")["level"], "ok");
    EXPECT_EQ(finding(report, "answers from here, 1 broker")["level"], "ok");
    EXPECT_EQ(finding(report, database_.topic() + ": 4 partitions")["level"], "ok") << report;
    for (const Json &item : report["findings"])
        EXPECT_EQ(item.size(), 4U) << item;
    const Ran text = ctl({"doctor"});
    EXPECT_EQ(text.status, 0);
    EXPECT_NE(text.out.find("0 problems"), std::string::npos) << text.out;
}

TEST_F(Doctor, PausedAndFailedAreWarnings)
{
    emit_refused("1");
    db_.exec("select outbox.pause('a reason')");
    ASSERT_TRUE(database_.reaches_state("paused"));
    const Json report = doctor();
    EXPECT_EQ(finding(report, "a reason")["level"], "warning") << report;
    EXPECT_EQ(finding(report, "a reason")["remedy"], "outboxctl resume");
    EXPECT_EQ(finding(report, "1 event failed")["level"], "warning") << report;
    EXPECT_EQ(report["warnings"], 2) << report;
}

TEST_F(Doctor, ASubscriptionWithoutALibraryForItsSinkIsAProblem)
{
    db_.exec("insert into outbox.subscriptions (name, sink, options) values ('s', 'pigeon', '{}')");
    const Json report = doctor();
    EXPECT_EQ(finding(report, "subscription \"s\": this server knows no sink \"pigeon\"")["level"],
              "problem")
        << report;
    db_.exec("delete from outbox.subscriptions");
}

TEST_F(Doctor, KafkaThatIsAwayIsAProblemAndExitsWithFour)
{
    const Ran ran = ctl({"doctor", "--json", "--bootstrap", "127.0.0.1:1"});
    EXPECT_EQ(ran.status, 4);
    const Json found = finding(ran.json(), "127.0.0.1:1 cannot be reached");
    EXPECT_EQ(found["level"], "problem") << ran.out;
    EXPECT_NE(found["text"].get<std::string>().find("Connection refused"), std::string::npos);
}

TEST_F(Doctor, MissingTopicsAreFound)
{
    db_.exec("select outbox.pause()");
    ASSERT_TRUE(database_.reaches_state("paused"));
    db_.exec("select outbox.emit($1, '1', 'x', '{}')", database_.type());
    const Json found = finding(doctor(), database_.topic() + ", which does not exist");
    EXPECT_EQ(found["level"], "warning");
    EXPECT_FALSE(found["remedy"].is_null());
}

TEST_F(Doctor, ARoleWithFewRightsLearnsWhatItMay)
{
    const std::string role = new_role();
    db_.exec("grant usage on schema outbox to " + role);
    db_.exec("grant execute on function outbox.emit(text, text, text, jsonb, jsonb, text, uuid, "
             "int) to " +
             role);
    const Ran ran = ctl_as(role, {"doctor", "--json"});
    EXPECT_EQ(ran.status, 0) << ran.out << ran.err;
    const Json report = ran.json();
    EXPECT_EQ(finding(report, "permission denied for view relay_status")["level"], "unknown");
    EXPECT_EQ(finding(report, "only a part of emit")["level"], "warning") << report;
    EXPECT_EQ(finding(report, "may not operate")["level"], "note") << report;
    EXPECT_EQ(finding(report, "may not see outbox.kafka_config")["level"], "note") << report;
    EXPECT_EQ(ctl({"doctor", "--role", "nobody_at_all"}).status, 4);
}

// The database says what belongs to a right, so nothing that it grants is forgotten here.
TEST_F(Doctor, ARoleThatLacksOneThingOfAGroupLearnsWhich)
{
    const std::string role = new_role();
    db_.exec("select outbox.grant_monitor('" + role + "'), outbox.grant_operator('" + role + "')");
    const auto lacks = [&](const std::string &granted)
    {
        db_.exec("revoke " + granted + " from " + role);
        const Json report = doctor({"--role", role});
        const Json found = finding(report, "it lacks ");
        EXPECT_EQ(found["level"], "warning") << granted;
        EXPECT_NE(report.dump().find(granted), std::string::npos) << report;
        EXPECT_EQ(finding(ctl_as(role, {"doctor", "--json"}).json(), "it lacks ")["text"],
                  found["text"])
            << "asked by itself";
        db_.exec("grant " + granted + " to " + role);
    };
    lacks("select on table outbox.stats");
    lacks("select, insert, update, delete on table outbox.routes");
    lacks("execute on function outbox.topic_stats()");
    EXPECT_TRUE(finding(doctor({"--role", role}), "it lacks ").is_null());
    const Json nobody = ctl_as(new_role(), {"doctor", "--json"}).json();
    EXPECT_NE(finding(nobody, "may not watch")["remedy"].dump().find("outbox.grant_monitor"),
              std::string::npos)
        << nobody;
}

TEST_F(Doctor, SettingsOfTheDatabaseThatWeakenAPromiseAreNamed)
{
    db_.exec("alter database " + database_.name() + " set synchronous_commit = off");
    db_.exec("alter database " + database_.name() + " set outbox.on_failure = skip");
    // As 0.2 took it: no statement stores a secret any more.
    db_.exec("set allow_system_table_mods = on");
    db_.exec("update pg_db_role_setting s set setconfig = setconfig || array['outbox.kafka_config="
             "max.in.flight=5 sasl.password=verysecretword'] from pg_database d "
             "where d.oid = s.setdatabase and d.datname = current_database()");
    const Ran ran = ctl({"doctor", "--json"});
    const Json report = ran.json();
    EXPECT_EQ(finding(report, "synchronous_commit is off")["level"], "warning") << report;
    EXPECT_EQ(finding(report, "outbox.on_failure is skip")["level"], "note");
    EXPECT_EQ(finding(report, "max.in.flight is 5")["level"], "warning");
    EXPECT_EQ(finding(report, "holds the secret sasl.password")["level"], "warning");
    EXPECT_EQ(ran.out.find("verysecretword"), std::string::npos) << ran.out;
    EXPECT_TRUE(finding(report, "survives a crash").is_null()) << report;
}

TEST(DoctorServer, WithoutExtensionThatIsTheProblem)
{
    const TestDatabase database(cluster(), TestDatabase::Extension::kNotInstalled);
    const Ran ran = ctl(connection(cluster(), database.name()), {"doctor", "--json"});
    EXPECT_EQ(ran.status, 4);
    const Json found = finding(ran.json(), "not installed in the database");
    EXPECT_EQ(found["level"], "problem") << ran.out;
    EXPECT_EQ(found["remedy"].get<std::string>().rfind("create extension outbox", 0), 0U);
}

// On a server where nothing is set up, each step is named with what to type.
TEST(DoctorServer, ANewUserIsLedFromStepToStep)
{
    OwnCluster server(
        {{"shared_preload_libraries", "auto_explain"}, {"outbox.bootstrap_servers", ""}});
    const TestDatabase none(server, TestDatabase::Extension::kNotInstalled);
    Json report = ctl(connection(server, none.name()), {"doctor", "--json"}).json();
    EXPECT_EQ(finding(report, "started without the library")["remedy"],
              "alter system set shared_preload_libraries = auto_explain, outbox; and restart the "
              "server.");
    EXPECT_NE(finding(report, "not installed")["remedy"].dump().find("create extension outbox"),
              std::string::npos);
    EXPECT_LT(report.dump().find("started without the library"),
              report.dump().find("not installed")); // in the order in which they are to be done
    EXPECT_NE(
        finding(report, "bootstrap_servers is empty")["remedy"].dump().find("alter system set"),
        std::string::npos);
    const std::string configure = finding(report, "bootstrap_servers is empty")["remedy"];
    Db fresh = none.connect(); // has not loaded the library, as psql would not have
    for (size_t begin = 0, end = 0; (end = configure.find(';', begin)) != std::string::npos;
         begin = end + 1)
        EXPECT_NO_THROW(fresh.exec(configure.substr(begin, end - begin)));
    EXPECT_EQ(none.connect().value("show outbox.bootstrap_servers"), "host:9092");
    const TestDatabase database(server);
    Db db = database.connect();
    db.exec("create role \"odd one\" login");
    report = ctl(connection(server, database.name(), "odd one"), {"doctor", "--json"}).json();
    EXPECT_TRUE(finding(report, "outbox.retention is 0").is_null()) << report;
    EXPECT_NE(finding(report, "settings are not seen"), nullptr);
    for (const Json &item : report["findings"])
        if (!item["remedy"].is_null() && item["remedy"].get<std::string>().rfind("grant ", 0) == 0)
            db.exec(item["remedy"]); // may be typed as it stands
    EXPECT_NE(ctl(connection(server, "nowhere"), {"doctor"}).err.find("Hint: -d, PGHOST"),
              std::string::npos);
    const Ran as_root = ctl(connection(server, database.name(), "root"), {"doctor"});
    EXPECT_EQ(as_root.status, 3);
    EXPECT_NE(as_root.err.find("sudo -u postgres outboxctl"), std::string::npos) << as_root.err;
    const Ran of_nobody = ctl({{"PGHOST", "/nonexistent"}}, {"doctor"});
    EXPECT_EQ(of_nobody.status, 3);
    EXPECT_NE(of_nobody.err.find("pg_lsclusters"), std::string::npos) << of_nobody.err;
    const Ran waited = ctl(connection(server, database.name()),
                           {"emit", database.type(), "1", "x", "{}", "--wait", "100ms"});
    EXPECT_NE(waited.err.find("the relay is not_preloaded: the server was started without the "
                              "library"),
              std::string::npos)
        << waited.err;
}

// There is no way back from a newer extension.
TEST(DoctorServer, ANewerExtensionNeedsANewerPackage)
{
    const TestDatabase database(cluster());
    Db db = database.connect();
    db.exec("update pg_extension set extversion = '9.9' where extname = 'outbox'");
    const Json report = ctl(connection(cluster(), database.name()), {"doctor", "--json"}).json();
    EXPECT_EQ(finding(report, "the loaded library is version")["remedy"],
              "Install the package of version 9.9 or a later one, then restart the server.")
        << report;
}

TEST(DoctorServer, AnOlderExtensionIsNamedWhenACommandNeedsANewerOne)
{
    const TestDatabase database(cluster(), TestDatabase::Extension::kNotInstalled);
    Db db = database.connect();
    db.exec("create extension outbox version '0.1'");
    const Json report = ctl(connection(cluster(), database.name()), {"doctor", "--json"}).json();
    EXPECT_EQ(finding(report, "the loaded library is version")["remedy"],
              "alter extension outbox update;")
        << report;
    for (const Words &words : std::vector<Words>{{"replays", "list"}, {"replay", "--dry-run"}})
    {
        const Ran ran = ctl(connection(cluster(), database.name()), words);
        EXPECT_EQ(ran.status, 5);
        EXPECT_NE(ran.err.find("alter extension outbox update"), std::string::npos) << ran.err;
    }
    for (const Words &words : std::vector<Words>{{"status"},
                                                 {"lag", "--sample", "0"},
                                                 {"failed", "list"},
                                                 {"emit", "a", "1", "b", "{}"}})
        EXPECT_EQ(ctl(connection(cluster(), database.name()), words).status, 0) << words[0];
}

TEST(DoctorServer, AServerThatLosesWhatItCommittedIsAProblem)
{
    OwnCluster server({{"fsync", "off"},
                       {"full_page_writes", "off"},
                       {"shared_preload_libraries", ""},
                       {"outbox.bootstrap_servers", ""}});
    const TestDatabase database(server);
    const Ran ran = ctl(connection(server, database.name()), {"doctor", "--json"});
    EXPECT_EQ(ran.status, 4);
    const Json report = ran.json();
    EXPECT_EQ(finding(report, "fsync is off")["level"], "problem") << report;
    EXPECT_EQ(finding(report, "full_page_writes is off")["level"], "problem");
    const Json preload = finding(report, "not_preloaded");
    EXPECT_EQ(preload["level"], "problem") << report;
    EXPECT_NE(preload["remedy"].get<std::string>().find("shared_preload_libraries"),
              std::string::npos);
    EXPECT_EQ(finding(report, "outbox.bootstrap_servers is empty")["level"], "problem");
}

// There is no relay on this server that would write the reasons anew.
TEST(DoctorServer, WhatHoldsRetentionBackIsNamedWithWhatToDo)
{
    OwnCluster server({{"shared_preload_libraries", ""}, {"outbox.bootstrap_servers", ""}});
    const TestDatabase database(server);
    Db db = database.connect();
    db.exec(
        "update outbox.ring set held_back_by = 'no partition is empty', held_back_since = now() "
        "where is_current");
    db.exec("update outbox.ring set held_back_by = 'a lock of process 77', "
            "held_back_since = now() - interval '2 days' where slot = 3");
    db.exec("update outbox.ring set held_back_by = '5 refused or waiting events', "
            "held_back_since = now() - interval '2 hours' where slot = 4");
    const Json report = ctl(connection(server, database.name()), {"doctor", "--json"}).json();
    const Json rotation = finding(report, "rotation of events is held back");
    EXPECT_EQ(rotation["level"], "warning") << report;
    const Json lock =
        finding(report, "truncation of events_3 is held back by a lock of process 77");
    EXPECT_EQ(lock["level"], "warning") << report;
    EXPECT_NE(lock["text"].get<std::string>().find("for 2 d"), std::string::npos) << lock;
    EXPECT_NE(lock["remedy"].get<std::string>().find("pg_stat_activity"), std::string::npos);
    const Json failed = finding(report, "truncation of events_4");
    EXPECT_EQ(failed["level"], "note");
    EXPECT_EQ(failed["remedy"].get<std::string>().rfind("outboxctl failed list", 0), 0U) << failed;
}

TEST_F(Doctor, ProcessedEventsHaveToBeRememberedAsLongAsEventsAreKept)
{
    const auto set = [&](const std::string &name, const std::string &value)
    { db_.exec("alter database " + database_.name() + " set outbox." + name + " = " + value); };
    EXPECT_EQ(finding(doctor(), "processed events are remembered for 7 d")["level"], "ok");
    set("processed_retention", "'6d'");
    Json report = doctor();
    const Json shorter = finding(report, "outbox.processed_retention is 6 d, outbox.retention 7 d");
    EXPECT_EQ(shorter["level"], "warning") << report;
    EXPECT_NE(shorter["remedy"].get<std::string>().find("outbox.processed_retention = '604800s'"),
              std::string::npos)
        << shorter;
    set("retention", "0");
    report = doctor();
    EXPECT_EQ(finding(report, "outbox.retention for ever")["level"], "warning") << report;
    EXPECT_EQ(finding(report, "outbox.retention is 0")["level"], "note");
    set("processed_retention", "0");
    set("backoff_max", "100");
    report = doctor();
    EXPECT_TRUE(finding(report, "outbox.retention for ever").is_null()) << report;
    EXPECT_EQ(finding(report, "outbox.processed_retention is 0")["level"], "note");
    EXPECT_EQ(finding(report, "outbox.backoff_max is below")["level"], "note");
}

} // namespace

} // namespace outbox::test
