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
    EXPECT_EQ(finding(report, "loaded library are version 0.2")["level"], "ok") << report;
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
    EXPECT_EQ(finding(report, "a reason")["mend"], "outboxctl resume");
    EXPECT_EQ(finding(report, "1 event failed")["level"], "warning") << report;
    EXPECT_EQ(report["warnings"], 2) << report;
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
    EXPECT_FALSE(found["mend"].is_null());
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

TEST_F(Doctor, SettingsOfTheDatabaseThatWeakenAPromiseAreNamed)
{
    db_.exec("alter database " + database_.name() + " set synchronous_commit = off");
    db_.exec("alter database " + database_.name() + " set outbox.on_failure = skip");
    db_.exec("alter database " + database_.name() +
             " set outbox.kafka_config = 'max.in.flight=5 sasl.password=verysecretword'");
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
    EXPECT_EQ(found["mend"].get<std::string>().rfind("create extension outbox", 0), 0U);
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
    EXPECT_NE(preload["mend"].get<std::string>().find("shared_preload_libraries"),
              std::string::npos);
    EXPECT_EQ(finding(report, "outbox.bootstrap_servers is empty")["level"], "problem");
}

} // namespace

} // namespace outbox::test
