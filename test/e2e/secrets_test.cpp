// Where a secret of Kafka may be, and that it is nowhere else.
#include "servers.h"

#include "support/process.h"

#include <fstream>

using namespace outbox::test;

namespace
{

constexpr auto kSoon = std::chrono::seconds(20);
const std::string kSecret = "hunter2-and-more";
const std::string kConfig = "security.protocol=SASL_PLAINTEXT sasl.password=" + kSecret;

// How a statement fails that gives the secret away.
std::string
refusal(Db &db, const std::string &statement)
{
    try
    {
        db.exec(statement);
    }
    catch (const SqlError &error)
    {
        // Behind that is the statement itself.
        const std::string said =
            std::string(error.what()).substr(0, std::string(error.what()).find("\nin: "));
        EXPECT_EQ(said.find(kSecret), std::string::npos) << said;
        return said + error.hint();
    }
    return "";
}

} // namespace

TEST(Secrets, AreRefusedInEveryStatementThatSetsKafkaConfigAndNotLogged)
{
    OwnCluster server;
    TestDatabase database(server);
    Db db = database.connect();
    const std::string value = "outbox.kafka_config = '" + kConfig + "'";
    for (const std::string &statement :
         {"set " + value, "set local " + value, "alter system set " + value,
          "alter database " + database.name() + " set " + value, "alter role postgres set " + value,
          "alter role all set " + value,
          "alter role postgres in database " + database.name() + " set " + value,
          "create function f() returns int language sql set " + value + " as 'select 1'",
          "select set_config('outbox.kafka_config', '" + kConfig + "', false)",
          "do $$ begin set " + value + "; end $$",
          "do $$ begin execute 'set outbox.kafka_config = ''" + kConfig + "'''; end $$",
          // refused for something else, or not to be read at all
          "set outbox.kafka_config = '" + kConfig + " acks=0'",
          "alter system set outbox.kafka_config = 'sasl.password=''" + kSecret + "'"})
        EXPECT_NE(refusal(db, statement).find("outbox.kafka_config"), std::string::npos)
            << statement;
    EXPECT_THROW(Db(server, database.name(),
                    "postgres options='-c outbox.kafka_config=sasl.password=" + kSecret + "'"),
                 std::exception);
    EXPECT_FALSE(server.log_contains(kSecret));
    EXPECT_TRUE(server.log_contains("\"sasl.password\" is a secret"));

    // In the file as well, when the server reads it again; what is there counts on.
    server.configure("outbox.kafka_config", "linger.ms=1");
    server.reload();
    ASSERT_TRUE(
        wait_until(kSoon, [&] { return db.value("show outbox.kafka_config") == "linger.ms=1"; }));
    server.configure("outbox.kafka_config", kConfig);
    server.configure("outbox.lag_warning", "1234");
    server.reload();
    ASSERT_TRUE(wait_until(kSoon, [&] { return db.value("show outbox.lag_warning") == "1234s"; }));
    EXPECT_EQ(db.value("show outbox.kafka_config"), "linger.ms=1");
    EXPECT_FALSE(server.log_contains(kSecret));
    EXPECT_TRUE(server.log_contains("outbox.kafka_config_file"));
}

// A password where there must be none is refused, and so is anything else of that statement.
TEST(Secrets, OfOptionsThatAreRefusedAreNotLogged)
{
    OwnCluster server;
    TestDatabase database(server);
    Db db = database.connect();
    db.exec(
        "select outbox.create_subscription('there', 'kafka', '{\"bootstrap_servers\": \"a:1\"}')");
    for (const auto &[sink, options] : std::vector<std::pair<std::string, std::string>>{
             {"kafka", R"({"bootstrap_servers": "a:1", "kafka_config": "sasl.password=%"})"},
             {"kafka", R"({"bootstrap_servers": "user:%@a:1"})"},
             {"kafka", R"({"bootstrap_servers": "a:1", "password": "%"})"},
             {"webhook", R"({"url": "https://user:%@a/", "format": "cloudevents"})"},
             {"webhook", R"({"url": "https://a/", "headers": {"Authorization": "%"}})"},
             {"webhook", R"({"url": "https://a/", "headers": {"X-Api_Key": "%"}})"},
             {"webhook", R"({"url": "https://a/", "secret": "%"})"},
             {"nats", R"({"servers": "nats://user:%@a"})"},
             {"nats", R"({"servers": "a", "token": "%"})"},
             {"rabbitmq", R"({"host": "a", "exchange": "e", "password": "%"})"},
             {"rabbitmq", R"({"host": "user:%@a", "exchange": "e"})"},
             {"rabbitmq", R"({"uri_file": "amqp://user:%@a", "exchange": "e"})"},
             {"kaffka", R"({"password": "%"})"}})
    {
        std::string with = options;
        with.replace(with.find('%'), 1, kSecret);
        const std::string call = "outbox.create_subscription('a', '" + sink + "', '" + with + "')";
        for (const std::string &statement :
             {"select " + call, "do $$ begin perform " + call + "; end $$",
              "do $$ begin execute 'select " +
                  std::string("outbox.alter_subscription(''there'', ''") + with + "'')'; end $$",
              "select outbox.alter_subscription('nobody', '" + with + "')"})
            EXPECT_NE(refusal(db, statement), "") << statement;
    }
    EXPECT_FALSE(server.log_contains(kSecret));
    EXPECT_TRUE(server.log_contains("has no option \"token\""));
}

// 0.2 took them there.
TEST(Secrets, ThatWereInKafkaConfigBeforeTheUpdateStayInForceWithAWarning)
{
    OwnCluster server({{"outbox.kafka_config", kConfig + " sasl.mechanisms=PLAIN"}});
    TestDatabase database(server);
    Db db = database.connect();
    EXPECT_EQ(db.value("show outbox.kafka_config"), kConfig + " sasl.mechanisms=PLAIN");
    EXPECT_TRUE(wait_until(
        kSoon, [&] { return server.log_contains("outbox relay: outbox.kafka_config: property"); }));
    EXPECT_TRUE(server.log_contains("\"sasl.password\" is a secret"));
    // A reload of what is there already changes nothing, and says nothing.
    server.configure("outbox.lag_warning", "1234");
    server.reload();
    ASSERT_TRUE(wait_until(kSoon, [&] { return db.value("show outbox.lag_warning") == "1234s"; }));
    EXPECT_FALSE(server.log_contains("contains errors"));
    // Nor does what ALTER DATABASE had stored, as an update finds it.
    db.exec("set allow_system_table_mods = on");
    db.exec("insert into pg_db_role_setting select oid, 0, array['outbox.kafka_config=' || $1] "
            "from pg_database where datname = current_database()",
            kConfig + " sasl.mechanism=PLAIN");
    Db next = database.connect();
    EXPECT_EQ(next.value("show outbox.kafka_config"), kConfig + " sasl.mechanism=PLAIN");
    EXPECT_FALSE(server.log_contains(kSecret));
    db.exec("delete from pg_db_role_setting");
}
