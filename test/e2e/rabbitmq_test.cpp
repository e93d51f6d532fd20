// A subscription to RabbitMQ, on a real one.
#include <algorithm>
#include <csignal>
#include <fstream>
#include <map>
#include <random>

#include "faults.h"
#include "support/amqp_client.h"
#include "support/rabbitmq_server.h"
#include "support/tree.h"
#include "workload.h"

using namespace outbox::test;

namespace
{

constexpr auto kLimit = std::chrono::seconds(60);
const std::string kSecret = "open-sesame-and-more";
const std::string kName = "rabbit";

// Memory of a process that nobody else has, in kB.
long
private_memory(const std::string &pid)
{
    std::ifstream status("/proc/" + pid + "/status");
    for (std::string line; std::getline(status, line);)
        if (line.rfind("RssAnon:", 0) == 0)
            return std::stol(line.substr(8));
    return -1;
}

// A database with a subscription to a RabbitMQ, of which a queue gets all.
struct Scene
{
    explicit Scene(PgCluster &cluster, RabbitMqServer &at)
        : server(cluster), rabbit(at), database(cluster), db(database.connect()),
          exchange(unique_name("events")), queue(unique_name("queue")),
          uri_file(run_dir() / unique_name("uri"))
    {
        AmqpClient client(rabbit.port());
        client.declare_exchange(exchange);
        client.declare_queue(queue);
        client.bind(queue, exchange);
        kafka().create_topic(database.topic());
        write_file(uri_file,
                   "amqp://guest:guest@127.0.0.1:" + std::to_string(rabbit.port()) + "\n");
        give_to_server_user(uri_file);
    }

    void create(const std::string &more = "", const std::string &name = kName)
    {
        db.exec("select outbox.create_subscription($1, 'rabbitmq', jsonb_build_object("
                "'uri_file', $2::text, 'exchange', $3::text, "
                "'routing_key', 'outbox.event.{aggregate_type}', 'backoff_initial', '100ms', "
                "'backoff_max', '400ms', 'heartbeat', '2s')" +
                    (more.empty() ? "" : " || '" + more + "'") + ")",
                name, uri_file.string(), exchange);
    }

    std::string status(const std::string &column)
    {
        return db.value("select coalesce((" + column +
                            ")::text, '') from outbox.subscription_status where name = $1",
                        kName);
    }
    bool becomes(const std::string &condition)
    {
        return wait_until(
            kLimit,
            [&]
            {
                return db.value("select coalesce(" + condition +
                                    ", false) from outbox.subscription_status where name = $1",
                                kName) == "t";
            });
    }
    std::string describe()
    {
        return db.value("select string_agg(s::text, E'\\n') from outbox.subscription_status s");
    }
    std::string emit(const std::string &key, const std::string &event = "made",
                     const std::string &payload = "{}")
    {
        return db.value("select outbox.emit($1, $2, $3, $4::jsonb)", database.type(), key, event,
                        payload);
    }

    // Takes what is in the queue.
    void read()
    {
        AmqpClient client(rabbit.port());
        for (AmqpMessage &message : client.get_all(queue))
            messages.push_back(std::move(message));
    }
    bool read_count(size_t count)
    {
        return wait_until(kLimit,
                          [&]
                          {
                              read();
                              return messages.size() >= count;
                          });
    }
    // Until every committed event is there.
    Report check()
    {
        const std::vector<Event> events = committed_events(db);
        Report report;
        (void) wait_until(std::chrono::seconds(90),
                          [&]
                          {
                              read();
                              report = compare(events, deliveries());
                              return report.lost.empty() && becomes_idle();
                          });
        read();
        return compare(events, deliveries());
    }

    PgCluster &server;
    RabbitMqServer &rabbit;
    TestDatabase database;
    Db db;
    const std::string exchange;
    const std::string queue;
    const std::filesystem::path uri_file;
    std::vector<AmqpMessage> messages;

private:
    bool becomes_idle()
    {
        return status("in_flight_events = 0 and retrying_events = 0 and waiting_events = 0") ==
               "true";
    }
    std::vector<Delivery> deliveries() const
    {
        std::vector<Delivery> all;
        for (const AmqpMessage &message : messages)
        {
            Delivery delivery;
            delivery.id = message.id;
            delivery.topic = message.routing_key;
            delivery.offset = static_cast<int64_t>(all.size());
            delivery.key = message.header("key");
            if (message.header("tombstone") != "true")
                delivery.payload = message.body;
            all.push_back(delivery);
        }
        return all;
    }
};

RabbitMqServer &
rabbitmq()
{
    static RabbitMqServer server;
    server.start();
    return server;
}

} // namespace

TEST(RabbitMq, MessagesHoldWhatWasEmittedAndComeOnceInOrder)
{
    Scene scene(cluster(), rabbitmq());
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
    Scene scene(cluster(), rabbitmq());
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
    Scene scene(cluster(), rabbitmq());
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
                             poison, kName),
              "3 NO_ROUTE: exchange \"" + scene.exchange +
                  "\" has no queue for routing key \"unknown\": NO_ROUTE (312)");
    for (const AmqpMessage &message : scene.messages)
        EXPECT_NE(message.id, poison);
    client.bind(scene.queue, scene.exchange, "unknown");
    scene.db.exec("select outbox.retry($1, $2)", poison, kName);
    ASSERT_TRUE(scene.read_count(101)) << scene.describe();
    EXPECT_EQ(scene.messages.back().id, poison);
    EXPECT_TRUE(scene.becomes("failed_events = 0")) << scene.describe();
}

TEST(RabbitMq, EventsOfAKeyBehindARefusedOneWaitForItAndComeInOrder)
{
    Scene scene(cluster(), rabbitmq());
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

TEST(RabbitMq, OneThatIsDeadHoldsUpNothingElseAndCountsNoAttempt)
{
    OwnCluster server(kFaultSettings);
    RabbitMqServer &own = rabbitmq();
    Scene scene(server, own);
    scene.create();
    (void) scene.emit("first");
    ASSERT_TRUE(scene.read_count(1)) << scene.describe();
    own.kill9();
    for (int i = 0; i < 300; i++)
        (void) scene.emit(std::to_string(i % 20));
    EXPECT_EQ(scene.db.value("select outbox.drain('20 s')"), "t");
    ASSERT_TRUE(scene.becomes("consecutive_failures > 2 and last_error like '%cannot connect%'"))
        << scene.describe();
    EXPECT_EQ(scene.db.value("select coalesce(max(attempts), 0) from outbox.deliveries where "
                             "subscription = $1",
                             kName),
              "0");
    own.start();
    const Report report = scene.check();
    EXPECT_TRUE(report.complete_and_ordered()) << report.summary();
    EXPECT_TRUE(scene.becomes("consecutive_failures = 0")) << scene.describe();
}

TEST(RabbitMq, AlarmIsShownAndWaitedFor)
{
    Scene scene(cluster(), rabbitmq());
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
    Scene scene(server, rabbitmq());
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
                  kName, scene.uri_file.string(), scene.exchange);
    ASSERT_TRUE(scene.becomes("config_error like '%begins neither with amqp:%'"))
        << scene.describe();
    EXPECT_FALSE(server.log_contains(kSecret));
    EXPECT_EQ(scene.describe().find(kSecret), std::string::npos);
}

// Large events while RabbitMQ is away, and when it is back.
TEST(RabbitMq, MemoryStaysWithin64MegabytesWhateverWaits)
{
    OwnCluster server(kFaultSettings);
    RabbitMqServer &own = rabbitmq();
    Scene scene(server, own);
    scene.create();
    ASSERT_TRUE(scene.becomes("state = 'running'")) << scene.describe();
    own.pause();
    scene.db.exec("select outbox.emit($1, i::text, 'made', to_jsonb(repeat('x', 900000))) from "
                  "generate_series(1, 150) i",
                  scene.database.type());
    scene.db.exec("select outbox.emit($1, i::text, 'made', '{}') from generate_series(1, 30000) i",
                  scene.database.type());
    ASSERT_TRUE(scene.becomes("consecutive_failures > 0")) << scene.describe();
    long most = private_memory(scene.status("pid"));
    own.resume();
    const bool all = wait_until(std::chrono::seconds(60),
                                [&]
                                {
                                    most = std::max(most, private_memory(scene.status("pid")));
                                    return scene.status("published_total") == "30150";
                                });
    EXPECT_TRUE(all) << scene.describe();
    EXPECT_LT(most, 64 * 1024);
    std::printf("RssAnon at most %ld kB\n", most);
}

// Lost 0, invented 0, in order per key.
TEST(RabbitMq, KillsOfRelayServerAndRabbitMqAtRandomLoseNothing)
{
    const unsigned seed = choose_seed();
    std::mt19937 random(seed);
    OwnCluster server(kFaultSettings);
    server.expect_kill();
    RabbitMqServer &own = rabbitmq();
    Scene scene(server, own);
    scene.create();
    Workload::Options options;
    options.clients = 4;
    options.transactions = 1000000;
    options.server_may_crash = true;
    Workload workload(server, scene.database, options);
    const auto up_to = [&](int ms)
    { return Milliseconds(std::uniform_int_distribution<int>(0, ms)(random)); };
    const int rounds = fault_rounds(4);
    const auto pid = [&]
    {
        pid_t found = 0;
        (void) wait_until(kLimit,
                          [&]
                          {
                              scene.db = scene.database.connect();
                              const std::string text = scene.status("coalesce(pid, 0)");
                              found = text.empty() ? 0 : std::stoi(text);
                              return found != 0;
                          });
        return found;
    };
    for (int round = 0; round < rounds && !testing::Test::HasFailure(); round++)
    {
        std::this_thread::sleep_for(up_to(1500));
        switch (round % 4)
        {
        case 0:
            (void) kill(pid(), SIGKILL);
            break;
        case 1:
            own.kill9();
            std::this_thread::sleep_for(up_to(500));
            own.start();
            break;
        case 2:
            server.kill9();
            server.start();
            break;
        default:
            own.close_connections("for a test");
            (void) kill(pid(), SIGTERM);
        }
        scene.db = scene.database.connect();
        scene.read();
    }
    workload.stop();
    workload.finish();
    scene.db = scene.database.connect();
    const Report report = scene.check();
    EXPECT_TRUE(report.complete_and_ordered()) << report.summary();
    print_figures("kills of relay, server and RabbitMQ", rounds, report);
}
