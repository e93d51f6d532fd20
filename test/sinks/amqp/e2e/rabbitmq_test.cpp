// A subscription to RabbitMQ, on a real one.
#include <map>

#include "rabbitmq_scene.h"
#include "support/tree.h"

using namespace outbox::test;

namespace
{

const std::string kSecret = "open-sesame-and-more";

} // namespace

TEST(RabbitMq, MessagesHoldWhatWasEmittedAndComeOnceInOrder)
{
    RabbitMqScene scene(cluster(), rabbitmq());
    scene.create();
    std::map<std::string, std::vector<std::string>> emitted;
    for (int i = 0; i < 200; i++)
    {
        const std::string key = std::to_string(i % 7);
        emitted[key].push_back(scene.emit(key, "made", "{\"n\": " + std::to_string(i) + "}"));
    }
    ASSERT_TRUE(scene.read_count(200)) << scene.describe();
    std::map<std::string, std::vector<std::string>> arrived;
    for (const AmqpMessage &message : scene.messages)
    {
        arrived[message.header("key")].push_back(message.id);
        EXPECT_EQ(message.id, message.header("id"));
        EXPECT_EQ(message.type, "made");
        EXPECT_EQ(message.delivery_mode, 2);
        EXPECT_EQ(message.routing_key, scene.database.topic());
        EXPECT_EQ(message.header("aggregate_type"), scene.database.type());
    }
    EXPECT_EQ(arrived, emitted);
    EXPECT_EQ(scene.messages.size(), 200u);
    EXPECT_TRUE(scene.becomes("published_total = 200")) << scene.describe();
    EXPECT_EQ(scene.status("last_error"), "");
}

// Each event is there twice, as two subscriptions send it.
TEST(RabbitMq, ConsumerOfTheDocumentationHandlesEachEventOnceInOrder)
{
    RabbitMqScene scene(cluster(), rabbitmq());
    scene.create();
    scene.create("", "another");
    std::string expected;
    for (int i = 0; i < 50; i++)
    {
        const std::string payload = "{\"n\": " + std::to_string(i) + "}";
        expected += scene.emit("key", "made", payload) + " made key b'" + payload + "'\n";
    }
    // Of Debian, as its package of pika.
    Command consumer({"/usr/bin/python3", in_source("test/sinks/amqp/consumer.py"),
                      "amqp://guest:guest@127.0.0.1:" + std::to_string(scene.rabbit.port()),
                      scene.queue, "50"});
    const Finished finished = run(consumer);
    ASSERT_TRUE(finished.ok()) << finished.output;
    EXPECT_EQ(finished.output, expected);
}

TEST(RabbitMq, ConsumerOfTheDocumentationIsTheOneThatIsTested)
{
    const std::string page = read_file(in_source("docs/rabbitmq.md"));
    EXPECT_NE(
        page.find("```python\n" + read_file(in_source("test/sinks/amqp/consumer.py")) + "```"),
        std::string::npos);
}

// Its key waits, others flow; when somebody has made a queue for it all go out in order.
TEST(RabbitMq, EventThatNoQueueGetsBlocksItsKeyOnly)
{
    RabbitMqScene scene(cluster(), rabbitmq());
    scene.create("{\"routing_key\": \"{event_type}\", \"max_attempts\": 3}");
    AmqpClient client(scene.rabbit.port());
    client.delete_queue(scene.queue);
    client.declare_queue(scene.queue);
    client.bind(scene.queue, scene.exchange, "known");
    const std::string poison = scene.emit("bad", "unknown");
    for (int i = 0; i < 100; i++)
        (void) scene.emit("good" + std::to_string(i % 5), "known");
    ASSERT_TRUE(scene.read_count(100)) << scene.describe();
    ASSERT_TRUE(scene.becomes("failed_events = 1")) << scene.describe();
    EXPECT_EQ(scene.db.value("select attempts || ' ' || last_error from outbox.dead_letters where "
                             "event_id = $1 and subscription = $2",
                             poison, kRabbitName),
              "3 NO_ROUTE: exchange \"" + scene.exchange +
                  "\" has no queue for routing key \"unknown\": NO_ROUTE (312)");
    for (const AmqpMessage &message : scene.messages)
        EXPECT_NE(message.id, poison);
    client.bind(scene.queue, scene.exchange, "unknown");
    scene.db.exec("select outbox.retry($1, $2)", poison, kRabbitName);
    ASSERT_TRUE(scene.read_count(101)) << scene.describe();
    EXPECT_EQ(scene.messages.back().id, poison);
    EXPECT_TRUE(scene.becomes("failed_events = 0")) << scene.describe();
}

TEST(RabbitMq, EventsOfAKeyBehindARefusedOneWaitForItAndComeInOrder)
{
    RabbitMqScene scene(cluster(), rabbitmq());
    scene.create("{\"max_attempts\": 1000}");
    AmqpClient client(scene.rabbit.port());
    client.delete_queue(scene.queue);
    std::vector<std::string> ids;
    for (int i = 0; i < 50; i++)
        ids.push_back(scene.emit("key"));
    ASSERT_TRUE(scene.becomes("retrying_events > 0")) << scene.describe();
    for (int i = 0; i < 50; i++)
        ids.push_back(scene.emit("key"));
    client.declare_queue(scene.queue);
    client.bind(scene.queue, scene.exchange);
    ASSERT_TRUE(scene.read_count(100)) << scene.describe();
    std::vector<std::string> arrived;
    for (const AmqpMessage &message : scene.messages)
        arrived.push_back(message.id);
    EXPECT_EQ(arrived, ids);
}

// By default a routing key has the event's type in it; an aggregate's events are one line for all
// that.
TEST(RabbitMq, EventsOfAKeyWaitForARefusedOneOfAnotherType)
{
    RabbitMqScene scene(cluster(), rabbitmq());
    scene.create("{\"routing_key\": \"{aggregate_type}.{event_type}\", \"max_attempts\": 1000}");
    AmqpClient client(scene.rabbit.port());
    client.delete_queue(scene.queue);
    client.declare_queue(scene.queue);
    const std::string type = scene.database.topic().substr(std::string("outbox.event.").size());
    client.bind(scene.queue, scene.exchange, type + ".known");
    std::vector<std::string> ids = {scene.emit("key", "unknown")};
    for (int i = 0; i < 20; i++)
        ids.push_back(scene.emit("key", "known"));
    const std::string other = scene.emit("other", "known");
    ASSERT_TRUE(scene.read_count(1)) << scene.describe();
    ASSERT_TRUE(scene.becomes("retrying_events > 0")) << scene.describe();
    ASSERT_EQ(scene.messages.size(), 1u);
    EXPECT_EQ(scene.messages[0].id, other);
    client.bind(scene.queue, scene.exchange, type + ".unknown");
    ASSERT_TRUE(scene.read_count(22)) << scene.describe();
    std::vector<std::string> arrived;
    for (std::size_t i = 1; i < scene.messages.size(); i++)
        arrived.push_back(scene.messages[i].id);
    EXPECT_EQ(arrived, ids);
}

TEST(RabbitMq, OneThatIsDeadHoldsUpNothingElseAndCountsNoAttempt)
{
    OwnCluster server(kFaultSettings);
    RabbitMqServer &own = rabbitmq();
    RabbitMqScene scene(server, own, kOutlivesCrashes);
    scene.create(kPatient);
    (void) scene.emit("first");
    ASSERT_TRUE(scene.read_count(1)) << scene.describe();
    own.kill9();
    for (int i = 0; i < 300; i++)
        (void) scene.emit(std::to_string(i % 20));
    EXPECT_EQ(scene.db.value("select outbox.drain('20 s', 'default')"), "t");
    ASSERT_TRUE(scene.becomes("consecutive_failures > 2 and last_error like '%cannot connect%'"))
        << scene.describe();
    EXPECT_EQ(scene.db.value("select coalesce(max(attempts), 0) from outbox.deliveries where "
                             "subscription = $1",
                             kRabbitName),
              "0");
    own.start();
    AmqpClient(own.port()).declare_bound(scene.queue, scene.exchange, kOutlivesCrashes);
    const Report report = scene.check();
    EXPECT_TRUE(report.complete_and_ordered()) << report.summary() << "\n"
                                               << scene.describe() << "\n"
                                               << own.ctl({"list_bindings"});
    EXPECT_TRUE(scene.becomes("consecutive_failures = 0")) << scene.describe();
}

TEST(RabbitMq, AlarmIsShownAndWaitedFor)
{
    RabbitMqScene scene(cluster(), rabbitmq());
    scene.create();
    (void) scene.emit("first");
    ASSERT_TRUE(scene.read_count(1)) << scene.describe();
    scene.rabbit.ctl({"set_vm_memory_high_watermark", "0.00001"});
    const std::string id = scene.emit("second");
    const bool shown = scene.becomes("last_error like 'BLOCKED:%'");
    scene.rabbit.ctl({"set_vm_memory_high_watermark", "absolute", "2GB"});
    EXPECT_TRUE(shown) << scene.describe();
    ASSERT_TRUE(scene.read_count(2)) << scene.describe();
    EXPECT_EQ(scene.messages.back().id, id);
    EXPECT_EQ(scene.messages.size(), 2u);
}

TEST(RabbitMq, SecretsAreNeitherShownNorLogged)
{
    OwnCluster server;
    RabbitMqScene scene(server, rabbitmq());
    write_file(scene.uri_file, "amqp://guest:" + kSecret +
                                   "@127.0.0.1:" + std::to_string(scene.rabbit.port()) + "\n");
    scene.create();
    (void) scene.emit("first");
    ASSERT_TRUE(scene.becomes("last_error like 'ACCESS_REFUSED:%'")) << scene.describe();
    EXPECT_FALSE(server.log_contains(kSecret));
    EXPECT_EQ(scene.describe().find(kSecret), std::string::npos);
    write_file(scene.uri_file, "amqp//guest:" + kSecret + "@127.0.0.1\n");
    scene.db.exec("select outbox.alter_subscription($1, jsonb_build_object('uri_file', $2::text, "
                  "'exchange', $3::text))",
                  kRabbitName, scene.uri_file.string(), scene.exchange);
    ASSERT_TRUE(scene.becomes("config_error like '%begins neither with amqp:%'"))
        << scene.describe();
    EXPECT_FALSE(server.log_contains(kSecret));
    EXPECT_EQ(scene.describe().find(kSecret), std::string::npos);
}
