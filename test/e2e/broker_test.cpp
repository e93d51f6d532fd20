// The way to Kafka is cut, slow or a black hole; Kafka stands still; partitions change leaders; the
// relay is told of another Kafka. Under load each, and nothing is lost, reordered or repeated.
#include <memory>

#include "faults.h"
#include "real_kafka_test.h"
#include "support/tcp_proxy.h"
#include "workload.h"

using namespace outbox::test;

namespace
{

// Clients at work on a server of their own that is told of `bootstrap`, and a consumer that reads
// along.
struct Scene
{
    Scene(Kafka &broker, const std::string &consumer_bootstrap, const std::string &bootstrap)
        : server(with_bootstrap(bootstrap)), database(server)
    {
        broker.create_topic(database.topic());
        consumer = std::make_unique<Consumer>(consumer_bootstrap, topics());
        Workload::Options options;
        options.clients = 4;
        options.transactions = 1000000;
        workload = std::make_unique<Workload>(server, database, options);
        EXPECT_TRUE(consumer->read_count(100, std::chrono::seconds(30)));
    }

    static Settings with_bootstrap(const std::string &bootstrap)
    {
        Settings settings = kFaultSettings;
        settings["outbox.bootstrap_servers"] = bootstrap;
        return settings;
    }

    std::vector<std::string> topics() const { return {database.topic()}; }

    Report end()
    {
        workload->stop();
        workload->finish();
        Db db = database.connect();
        return check_delivery(db, *consumer);
    }

    OwnCluster server;
    TestDatabase database;
    std::unique_ptr<Consumer> consumer;
    std::unique_ptr<Workload> workload;
};

// A real Kafka whose clients all come through a proxy.
struct ProxiedKafka
{
    ProxiedKafka()
        : broker(1, {{"advertised.listeners",
                      "PLAINTEXT://127.0.0.1:" + std::to_string(proxy.port())}})
    {
        proxy.forward_to(std::stoi(broker.bootstrap().substr(broker.bootstrap().rfind(':') + 1)));
        broker.start();
    }
    std::string bootstrap() const { return "127.0.0.1:" + std::to_string(proxy.port()); }

    TcpProxy proxy;
    RealKafka broker;
};

} // namespace

REAL_KAFKA_TEST(Broker, ANetworkThatIsCutSlowOrABlackHoleCostsNothingButTime)
{
    ProxiedKafka kafka;
    Scene scene(kafka.broker, kafka.bootstrap(), kafka.bootstrap());
    FaultRounds faults("network cut, delayed, black-holed", *scene.consumer, choose_seed());
    using Mode = TcpProxy::Mode;
    for (const Mode mode : {Mode::kCut, Mode::kDelay, Mode::kBlackHole, Mode::kCut})
    {
        faults.read_for_random(Milliseconds(300));
        faults.round(
            [&]
            {
                kafka.proxy.set(mode, Milliseconds(150));
                if (mode == Mode::kCut)
                    EXPECT_TRUE(scene.database.reaches_state("backing_off"));
                else
                    scene.consumer->read_for(Milliseconds(3000));
                kafka.proxy.set(Mode::kPass);
            });
    }
    const Report report = scene.end();
    EXPECT_EQ(report.duplicates, 0U);
    faults.judge(report);
}

// It is no failure for librdkafka before its time-out, which is a minute.
REAL_KAFKA_TEST(Broker, AKafkaThatHangsIsNamedWhileNothingFails)
{
    RealKafka &broker = dynamic_cast<RealKafka &>(kafka());
    TestDatabase database(cluster());
    Db db = database.connect();
    const auto emit = [&]
    { return db.value("select outbox.emit($1, 'k', 'e', '{}')", database.type()); };
    ASSERT_EQ(db.value("select outbox.wait_published($1, '20 s')", emit()), "t");
    broker.process(0).pause();
    const std::string id = emit();
    EXPECT_TRUE(wait_until(std::chrono::seconds(20),
                           [&]
                           {
                               return db.value("select coalesce(last_error, '') ~ 'has "
                                               "acknowledged nothing for ten seconds' and state = "
                                               "'running' from outbox.relay_status") == "t";
                           }));
    broker.process(0).resume();
    EXPECT_EQ(db.value("select outbox.wait_published($1, '20 s')", id), "t");
    EXPECT_TRUE(wait_until(
        std::chrono::seconds(5),
        [&] { return db.value("select last_error is null from outbox.relay_status") == "t"; }));
}

REAL_KAFKA_TEST(Broker, AKafkaThatStandsStillForSecondsCostsNothingButTime)
{
    RealKafka &broker = dynamic_cast<RealKafka &>(kafka());
    Scene scene(broker, broker.bootstrap(), broker.bootstrap());
    FaultRounds faults("Kafka stands still (SIGSTOP) for 3 s", *scene.consumer, choose_seed());
    for (int round = 0; round < 2; ++round)
    {
        faults.read_for_random(Milliseconds(300));
        faults.round(
            [&]
            {
                broker.process(0).pause();
                scene.consumer->read_for(Milliseconds(3000));
                broker.process(0).resume();
            });
    }
    const Report report = scene.end();
    EXPECT_EQ(report.duplicates, 0U);
    faults.judge(report);
}

REAL_KAFKA_TEST(Broker, LeadersThatMoveAmongThreeNodesLoseAndReorderNothing)
{
    // Kafka's default, so that the others answer nothing for longer than the relay finds normal.
    RealKafka broker(3, {{"min.insync.replicas", "2"}, {"broker.session.timeout.ms", "9000"}});
    broker.start();
    Scene scene(broker, broker.bootstrap(), broker.bootstrap());
    FaultRounds faults("leaders move (3 nodes, one killed, one stopped)", *scene.consumer,
                       choose_seed());
    for (size_t node = 0; node < 2; ++node)
    {
        faults.read_for_random(Milliseconds(500));
        faults.round(
            [&]
            {
                if (node % 2 == 0)
                    broker.process(node).kill9();
                else
                    broker.stop_node(node);
            });
        // The next one may only go when this one has all records again.
        broker.stop_node(node);
        broker.start_node(node);
        broker.wait_ready();
    }
    const Report report = scene.end();
    EXPECT_EQ(report.duplicates, 0U);
    faults.judge(report);
}

// Each Kafka holds a part; together they hold everything, in order, and no part overlaps the other
// by more than what was in flight.
TEST(Broker, AReloadThatMovesTheRelayToAnotherKafkaUnderLoadLosesNothing)
{
    EmbeddedKafka other;
    other.start();
    Scene scene(kafka(), kafka().bootstrap(), kafka().bootstrap());
    other.create_topic(scene.database.topic());
    Consumer there(other.bootstrap(), scene.topics());

    const auto moved = Clock::now();
    scene.server.configure("outbox.bootstrap_servers", other.bootstrap());
    scene.server.reload();
    EXPECT_TRUE(there.read_count(500, std::chrono::seconds(30)));
    const Milliseconds recovery = since(moved);
    scene.workload->stop();
    scene.workload->finish();

    // One log for the checker: what the second Kafka got comes after what the first one had.
    Db db = scene.database.connect();
    const std::string last = db.value("select id from outbox.events order by seq desc limit 1");
    ASSERT_EQ(db.value("select outbox.wait_published($1, '30 s')", last), "t");
    scene.consumer->read_for(Milliseconds(500));
    there.read_for(Milliseconds(500));
    std::vector<Delivery> all = deliveries(scene.consumer->records());
    constexpr int64_t kAfterwards = int64_t{1} << 40;
    for (Delivery &delivery : deliveries(there.records()))
    {
        delivery.offset += kAfterwards;
        all.push_back(std::move(delivery));
    }
    const Report report = compare(committed_events(db), all);
    EXPECT_TRUE(report.complete_and_ordered()) << report.summary();
    print_figures("moved to another Kafka by reload", 1, report, {}, {recovery});
}
