// Kafka lets in who has the password or the right certificate, and takes what he may write.
#include <fstream>

#include "real_kafka_test.h"
#include "restricted_kafka.h"
#include "servers.h"

#include "support/kafka_admin.h"

using namespace outbox::test;

namespace
{

constexpr const char *kPrincipal = "User:relay";

std::string
password_properties(const std::string &mechanism, const std::string &password)
{
    return "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=" + mechanism +
           "\nsasl.username=" + RestrictedKafka::kUser + "\nsasl.password=" + password + "\n";
}

// A database that publishes to the restricted Kafka.
class Scene
{
public:
    Scene(const std::string &bootstrap, const std::string &properties)
        : file_(RestrictedKafka::instance().write_properties(properties)),
          database_(cluster(), TestDatabase::Extension::kNotInstalled), db_(database_.connect())
    {
        const Settings settings = {{"outbox.bootstrap_servers", bootstrap},
                                   {"outbox.kafka_config_file", file_},
                                   {"outbox.backoff_initial", "50ms"},
                                   {"outbox.backoff_max", "300ms"}};
        for (const auto &[name, value] : settings)
            db_.exec("alter database " + database_.name() + " set " + name + " = '" + value + "'");
        db_.exec("create extension outbox");
    }

    // Another of this database's aggregate types, with its topic.
    std::string type(const std::string &suffix) const { return database_.type() + suffix; }
    std::string topic(const std::string &suffix) const { return kTopicPrefix + type(suffix); }
    void create_topic(const std::string &suffix)
    {
        RestrictedKafka::instance().kafka().create_topic(topic(suffix));
    }

    std::string emit(const std::string &suffix, int count = 1)
    {
        return db_.value("select max(id::text) from (select outbox.emit($1, (i % 7)::text, 'e', "
                         "'{}') id from generate_series(1, $2::int) i) e",
                         type(suffix), count);
    }

    bool published(const std::string &id, const std::string &timeout = "20 s")
    {
        return db_.value("select outbox.wait_published($1, $2::interval)", id, timeout) == "t";
    }

    std::string waiting_error()
    {
        return db_.value("select coalesce(max(last_error), '') from outbox.deliveries");
    }

    // Comes true when the last rows of what Kafka has acknowledged are gone.
    bool nothing_waits()
    {
        return wait_until(std::chrono::seconds(20), [&]
                          { return db_.value("select count(*) from outbox.deliveries") == "0"; });
    }

    std::string status() { return db_.value("select r::text from outbox.relay_status r"); }

    // Whether relay_status comes to speak of this.
    bool reports(const std::string &text)
    {
        return wait_until(std::chrono::seconds(20),
                          [&]
                          {
                              return db_.value("select coalesce(last_error, '') from "
                                               "outbox.relay_status")
                                         .find(text) != std::string::npos;
                          });
    }

    Report check(const std::vector<std::string> &suffixes)
    {
        std::vector<std::string> topics;
        for (const std::string &suffix : suffixes)
            topics.push_back(topic(suffix));
        Consumer consumer(RestrictedKafka::instance().bootstrap(), topics);
        return check_delivery(db_, consumer);
    }

    const TestDatabase &database() const { return database_; }
    Db &db() { return db_; }

    void change_properties(const std::string &text)
    {
        std::ofstream(file_, std::ios::trunc) << text;
        cluster().reload();
    }

private:
    std::string file_;
    TestDatabase database_;
    Db db_;
};

void
allow(const std::string &topic)
{
    allow_write(RestrictedKafka::instance().bootstrap(), kPrincipal, topic);
}

} // namespace

REAL_KAFKA_TEST(Security, EventsWaitForTheRightToWriteTheirTopicWhileOthersFlow)
{
    RestrictedKafka &kafka = RestrictedKafka::instance();
    Scene scene(kafka.password_bootstrap(),
                password_properties("PLAIN", RestrictedKafka::kPassword));
    for (const char *suffix : {"_open", "_readonly", "_hidden"})
        scene.create_topic(suffix);
    allow(scene.topic("_open"));
    allow_describe(kafka.bootstrap(), kPrincipal, scene.topic("_readonly"));

    ASSERT_TRUE(scene.published(scene.emit("_open")));
    const std::string readonly = scene.emit("_readonly", 100);
    ASSERT_TRUE(
        wait_until(std::chrono::seconds(20),
                   [&] { return scene.waiting_error().find("TOPIC_AUTHORIZATION_FAILED") == 0; }))
        << scene.waiting_error();
    EXPECT_TRUE(scene.published(scene.emit("_open", 100), "5 s"));
    scene.emit("_readonly", 100);
    allow(scene.topic("_readonly"));
    EXPECT_TRUE(scene.published(readonly));

    const std::string hidden = scene.emit("_hidden", 100);
    const Report others = [&]
    {
        EXPECT_TRUE(scene.published(scene.emit("_open", 100), "40 s"));
        scene.emit("_hidden", 100);
        allow(scene.topic("_hidden"));
        EXPECT_TRUE(scene.published(hidden, "40 s"));
        return scene.check({"_open", "_readonly", "_hidden"});
    }();
    EXPECT_TRUE(others.complete_and_ordered()) << others.summary();
    EXPECT_EQ(others.duplicates, 0U) << others.summary();
    EXPECT_TRUE(scene.nothing_waits()) << scene.waiting_error();
}

// librdkafka before 2.6.1 answers the SCRAM challenge with a nonce that Kafka 4 does not take, and
// Kafka then speaks of invalid credentials. Nothing is lost by that.
REAL_KAFKA_TEST(Security, EventsGoOutWithScramOrTheReasonIsShownWhenLibrdkafkaIsTooOld)
{
    constexpr int kScramWorksSince = 0x020601ff;
    Scene scene(RestrictedKafka::instance().password_bootstrap(),
                password_properties("SCRAM-SHA-256", RestrictedKafka::kScramPassword));
    scene.create_topic("_open");
    allow(scene.topic("_open"));
    const std::string last = scene.emit("_open", 100);
    if (rd_kafka_version() < kScramWorksSince)
    {
        ASSERT_TRUE(scene.database().reaches_state("backing_off"));
        EXPECT_TRUE(scene.reports("SCRAM-SHA-256"));
        scene.change_properties(password_properties("PLAIN", RestrictedKafka::kPassword));
    }
    EXPECT_TRUE(scene.published(last)) << scene.status();
    const Report report = scene.check({"_open"});
    EXPECT_TRUE(report.exact()) << report.summary();
}

REAL_KAFKA_TEST(Security, EventsGoOutOverTlsToABrokerThatProvesWhoItIsAndToNoOther)
{
    RestrictedKafka &kafka = RestrictedKafka::instance();
    const std::string tls = "security.protocol=SSL\nssl.ca.location=";
    Scene scene(kafka.tls_bootstrap(), tls + kafka.stranger() + "\n");
    scene.create_topic("_open");
    const std::string last = scene.emit("_open", 100);
    ASSERT_TRUE(scene.database().reaches_state("backing_off"));
    EXPECT_FALSE(scene.published(last, "500 ms"));
    EXPECT_TRUE(scene.reports("certificate verify failed")) << scene.status();

    scene.change_properties(tls + kafka.authority() + "\n");
    EXPECT_TRUE(scene.published(last));
    const Report report = scene.check({"_open"});
    EXPECT_TRUE(report.exact()) << report.summary();
}

REAL_KAFKA_TEST(Security, AWrongPasswordIsReportedAndNeverShownAndACorrectedOneTakesEffect)
{
    const std::string wrong = "wr0ng-p4ss";
    Scene scene(RestrictedKafka::instance().password_bootstrap(),
                password_properties("PLAIN", wrong));
    scene.create_topic("_open");
    allow(scene.topic("_open"));
    const std::string last = scene.emit("_open", 100);
    ASSERT_TRUE(scene.database().reaches_state("backing_off"));
    EXPECT_TRUE(scene.reports("uthentication failed")) << scene.status();
    EXPECT_EQ(scene.db().value("select count(*) from outbox.deliveries"), "0");

    scene.change_properties(password_properties("PLAIN", RestrictedKafka::kPassword));
    EXPECT_TRUE(scene.published(last));
    const Report report = scene.check({"_open"});
    EXPECT_TRUE(report.exact()) << report.summary();
    for (const std::string &secret : {wrong, std::string(RestrictedKafka::kPassword)})
    {
        EXPECT_FALSE(cluster().log_contains(secret));
        EXPECT_EQ(scene.db().value("select count(*) from outbox.relay_status r where "
                                   "position($1 in r::text) > 0",
                                   secret),
                  "0");
    }
}

// What Kafka does not know and must not create: its events wait, those of other topics do not wait
// with them.
REAL_KAFKA_TEST(Security, EventsWaitForAMissingTopicWhileOthersFlow)
{
    Scene scene(RestrictedKafka::instance().bootstrap(), "");
    scene.create_topic("_there");
    ASSERT_TRUE(scene.published(scene.emit("_there")));
    const std::string missing = scene.emit("_missing", 100);
    // Others are slow at most once, when the topic is found to be missing, not at each attempt.
    int slow = 0;
    const auto started = Clock::now();
    while (since(started) < std::chrono::seconds(9))
    {
        const auto start = Clock::now();
        ASSERT_TRUE(scene.published(scene.emit("_there")));
        slow += since(start) > std::chrono::seconds(1) ? 1 : 0;
    }
    EXPECT_LE(slow, 1);
    EXPECT_NE(scene.waiting_error().find("UNKNOWN_TOPIC"), std::string::npos)
        << scene.waiting_error();
    scene.emit("_missing", 100);
    scene.create_topic("_missing");
    EXPECT_TRUE(scene.published(missing));
    scene.emit("_missing", 100);
    const Report report = scene.check({"_there", "_missing"});
    EXPECT_TRUE(report.exact()) << report.summary();
}

// A mistake in a route costs nothing but time: what waits for the topic goes where the corrected
// route says, in order, and before what is emitted then.
REAL_KAFKA_TEST(Security, EventsThatWaitForAMissingTopicFollowACorrectedRouteInOrder)
{
    Scene scene(RestrictedKafka::instance().bootstrap(), "");
    scene.create_topic("_there");
    const std::string route =
        "insert into outbox.routes (topic) values ($1) "
        "on conflict (aggregate_type, event_type) do update set topic = excluded.topic";
    scene.db().exec(route, scene.topic("_typo"));
    scene.emit("_any", 50);
    ASSERT_TRUE(wait_until(std::chrono::seconds(20),
                           [&] { return scene.waiting_error().find("UNKNOWN_TOPIC") == 0; }))
        << scene.waiting_error();
    scene.emit("_any", 50);
    scene.db().exec(route, scene.topic("_there"));
    const std::string last = scene.emit("_any", 50);
    EXPECT_TRUE(scene.published(last)) << scene.status();
    Consumer consumer(RestrictedKafka::instance().bootstrap(), {scene.topic("_there")});
    ASSERT_TRUE(consumer.read_count(150, std::chrono::seconds(20))) << scene.status();
    std::vector<Event> events = committed_events(scene.db());
    for (Event &event : events)
        event.topic = scene.topic("_there");
    const Report report = compare(events, deliveries(consumer.records()));
    EXPECT_TRUE(report.exact()) << report.summary();
    EXPECT_TRUE(scene.nothing_waits()) << scene.waiting_error();
}

// What the old topic held is gone with it, by the will of who deleted it; nothing else is.
REAL_KAFKA_TEST(Security, EventsGoOnInOrderAfterTheirTopicWasDeletedAndMadeAgain)
{
    RestrictedKafka &kafka = RestrictedKafka::instance();
    Scene scene(kafka.bootstrap(), "");
    scene.create_topic("_again");
    scene.create_topic("_other");
    ASSERT_TRUE(scene.published(scene.emit("_again", 200)));
    const std::string acknowledged = scene.db().value("select max(seq) from outbox.events");
    delete_topic(kafka.bootstrap(), scene.topic("_again"));
    scene.emit("_again", 200);
    ASSERT_TRUE(scene.published(scene.emit("_other", 10)));
    scene.create_topic("_again");
    ASSERT_TRUE(scene.published(scene.emit("_again", 200), "40 s"));

    Consumer consumer(kafka.bootstrap(), {scene.topic("_again"), scene.topic("_other")});
    ASSERT_TRUE(consumer.read_count(410, std::chrono::seconds(20))) << consumer.records().size();
    consumer.read_for(Milliseconds(300));
    std::vector<Event> events;
    for (const Event &event : committed_events(scene.db()))
        if (event.seq > std::stoll(acknowledged))
            events.push_back(event);
    const Report report = compare(events, deliveries(consumer.records()));
    EXPECT_TRUE(report.complete_and_ordered()) << report.summary();
}
