// tail
#include "ctl.h"
#include "pty.h"

#include <sstream>
#include <utility>

namespace outbox::test
{

namespace
{

class Tail : public CtlTest
{
protected:
    Environment environment() const { return connection(cluster(), database_.name()); }

    std::vector<Json> lines(const std::string &text) const
    {
        std::vector<Json> all;
        std::istringstream stream(text);
        for (std::string line; std::getline(stream, line);)
            all.push_back(Json::parse(line));
        return all;
    }
};

TEST_F(Tail, JsonHasTheDocumentedMembers)
{
    const std::string id = db_.value(
        "select outbox.emit($1, 'k', 'order.paid', '{\"a\": 1}', headers => '{\"tenant\": 7}')",
        database_.type());
    db_.exec(R"(select outbox.emit_bytes($1, 'k', 'order.raw', '\x00ff'))", database_.type());
    const Ran ran = ctl({"tail", "--topic", database_.topic(), "-b", "-n", "2", "--json"});
    EXPECT_EQ(ran.status, 0) << ran.err;
    const std::vector<Json> records = lines(ran.out);
    ASSERT_EQ(records.size(), 2U);
    const Json &first = records[0];
    EXPECT_EQ(first.size(), 12U);
    EXPECT_EQ(first["topic"], database_.topic());
    EXPECT_EQ(first["offset"], 0);
    EXPECT_TRUE(first["partition"].is_number());
    EXPECT_EQ(first["timestamp"].get<std::string>().size(), 24U);
    EXPECT_EQ(first["key"], "k");
    EXPECT_EQ(first["id"], id);
    EXPECT_EQ(first["aggregate_type"], database_.type());
    EXPECT_EQ(first["event_type"], "order.paid");
    EXPECT_EQ(first["headers"]["tenant"], "7");
    EXPECT_EQ(first["payload"], "{\"a\": 1}");
    EXPECT_TRUE(first["payload_base64"].is_null());
    EXPECT_TRUE(first["key_base64"].is_null());
    EXPECT_TRUE(records[1]["payload"].is_null());
    EXPECT_EQ(records[1]["payload_base64"], "AP8=");
}

TEST_F(Tail, RecordsWithCloudEventsHeadersAloneAreUnderstood)
{
    db_.exec("insert into outbox.routes (headers_format) values ('cloudevents')");
    const std::string id =
        db_.value("select outbox.emit($1, 'k', 'order.paid', '{}', headers => '{\"tenant\": 7}')",
                  database_.type());
    const Words words = {"tail", "--topic", database_.topic(), "-b", "-n", "1"};
    const Ran text = ctl(words);
    EXPECT_NE(text.out.find("order.paid"), std::string::npos) << text.out;
    EXPECT_NE(text.out.find("id=" + id + "  tenant=7  content-type=application/json\n"),
              std::string::npos)
        << text.out;
    const Ran json = ctl({"tail", "--topic", database_.topic(), "-b", "-n", "1", "--json"});
    ASSERT_EQ(json.status, 0) << json.err;
    const Json record = lines(json.out).at(0);
    EXPECT_EQ(record["id"], id);
    EXPECT_EQ(record["event_type"], "order.paid");
    EXPECT_EQ(record["aggregate_type"], database_.type());
}

TEST_F(Tail, ATopicOfTheTemplateThatComesIntoBeingIsShownFromItsFirstEvent)
{
    // Topics of this test alone.
    const std::string prefix = unique_name("prefix_");
    db_.exec("alter database " + database_.name() + " set outbox.topic_template = '" + prefix +
             ".{aggregate_type}.v1'");
    db_.exec("select pg_reload_conf()");
    Pty terminal({outboxctl(), "tail", "-n", "1"}, environment());
    ASSERT_TRUE(terminal.shows("waiting for a topic " + prefix + ".*.v1")) << terminal.output();
    Db db = database_.connect(); // with the new template
    db.exec("select outbox.emit('order', '1', 'order.first', '{\"n\": 1}')");
    EXPECT_EQ(terminal.ends(std::chrono::seconds(15)), 0) << terminal.output();
    EXPECT_NE(terminal.output().find("order.first"), std::string::npos) << terminal.output();
    EXPECT_NE(terminal.output().find(prefix + ".order.v1"), std::string::npos);
}

TEST_F(Tail, OnlyWhatIsPublishedFromNowOnIsShownUnlessAskedFor)
{
    emit("1", "{\"old\": true}");
    Pty terminal({outboxctl(), "tail", "-t", database_.topic(), "-n", "2"}, environment());
    ASSERT_TRUE(terminal.shows("following " + database_.topic())) << terminal.output();
    emit("2", "{\"new\": true}");
    emit("1", "{\"new\": true}");
    EXPECT_EQ(terminal.ends(std::chrono::seconds(15)), 0) << terminal.output();
    EXPECT_EQ(terminal.output().find("old"), std::string::npos) << terminal.output();
    EXPECT_NE(terminal.output().find("key"), std::string::npos);
}

TEST_F(Tail, CtrlCEndsItAtOnceAndTheTerminalIsAsBefore)
{
    emit("1");
    for (const bool counted : {false, true})
    {
        Words words = {outboxctl(), "tail", "-t", database_.topic()};
        if (counted)
            words.insert(words.end(), {"-n", "5"});
        Pty terminal(words, environment());
        const termios before = terminal.settings();
        ASSERT_TRUE(terminal.shows("following " + database_.topic())) << terminal.output();
        const auto pressed = Clock::now();
        terminal.type("\3");
        EXPECT_EQ(terminal.ends(std::chrono::seconds(5)), counted ? 130 : 0) << terminal.output();
        EXPECT_LT(since(pressed), std::chrono::milliseconds(1500));
        EXPECT_TRUE(same(before, terminal.settings()));
    }
}

TEST_F(Tail, WhatATerminalWouldObeyIsShownInstead)
{
    db_.exec(R"(select outbox.emit_bytes($1, E'\u001b]0;x', 'order.raw', '\x1b5b324a'))",
             database_.type());
    const Ran ran = ctl({"tail", "-t", database_.topic(), "-b", "-n", "1"});
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(ran.out.find('\x1b'), std::string::npos);
    EXPECT_NE(ran.out.find("\\x1b[2J"), std::string::npos) << ran.out;
}

TEST_F(Tail, WithBrokersAndTopicNoDatabaseIsNeeded)
{
    emit("1");
    const Ran ran = test::ctl(
        {{"PGHOST", "127.0.0.1"}, {"PGPORT", "1"}},
        {"tail", "--bootstrap", kafka().bootstrap(), "-t", database_.topic(), "-b", "-n", "1"});
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_NE(ran.out.find("order.paid"), std::string::npos);
}

// Starts the broker again however the test ends: the other tests need it.
class Absence
{
public:
    Absence() { kafka().stop(); }
    ~Absence() { end(); }
    Absence(const Absence &) = delete;
    Absence &operator=(const Absence &) = delete;
    void end()
    {
        if (std::exchange(lasts_, false))
            kafka().start();
    }

private:
    bool lasts_ = true;
};

TEST_F(Tail, KafkaThatIsAwayIsToldAndWaitedFor)
{
    emit("1");
    Absence absence;
    Pty terminal({outboxctl(), "tail", "-t", database_.topic(), "-b", "-n", "1"}, environment());
    const bool told = terminal.shows("cannot be reached, trying again");
    absence.end();
    EXPECT_TRUE(told) << terminal.output();
    EXPECT_EQ(terminal.ends(std::chrono::seconds(20)), 0) << terminal.output();
    EXPECT_NE(terminal.output().find("order.paid"), std::string::npos);
    EXPECT_TRUE(database_.reaches_state("running"));
}

TEST_F(Tail, SecretsAreNeverShown)
{
    const std::string secret = "verysecretword";
    for (const std::string &property : {"sasl.password=" + secret, "ssl.key.password=" + secret,
                                        "ssl.keystore.password=" + secret})
    {
        for (const Words &words : std::vector<Words>{
                 {"tail", "-n", "1", "-X", property, "-X", "security.protocol=" + secret},
                 {"tail", "-n", "1", "-X", property, "-X", "security.protocol=ssl", "-X",
                  "ssl.keystore.location=/nowhere/" + secret},
                 {"doctor", "-X", property, "-X", "security.protocol=ssl", "-X",
                  "ssl.keystore.location=/nowhere/" + secret}})
        {
            const Ran ran = ctl(words);
            EXPECT_NE(ran.status, 0) << ran.out;
            EXPECT_EQ((ran.out + ran.err).find(secret), std::string::npos) << ran.out << ran.err;
        }
    }
}

TEST_F(Tail, PropertiesComeFromAFileToo)
{
    emit("1");
    const std::string file = run_dir() / unique_name("properties");
    write_file(file, "no.such.property=1\n");
    const Ran refused = ctl({"tail", "-n", "1", "--kafka-config", file});
    EXPECT_EQ(refused.status, 1);
    EXPECT_NE(refused.err.find("no.such.property"), std::string::npos) << refused.err;
    write_file(file, "# mine\nclient.id=me\n");
    EXPECT_EQ(
        ctl({"tail", "-b", "-n", "1", "-t", database_.topic(), "--kafka-config", file}).status, 0);
    EXPECT_EQ(ctl({"tail", "-n", "1", "--kafka-config", "/nowhere"}).status, 1);
    EXPECT_EQ(ctl({"tail", "-n", "1", "--bootstrap", "a:b:c"}).status, 2);
    EXPECT_EQ(ctl({"tail", "-n", "1", "-X", "nonsense"}).status, 2);
}

} // namespace

} // namespace outbox::test
