// A database without a Kafka: a webhook has all, `default` is detached.
#include <map>

#include "e2e/faults.h"
#include "webhook_subscription_scene.h"

using namespace outbox::test;

namespace
{

// In order for each key, by the first arrival of each.
std::map<std::string, std::vector<std::string>>
arrived_at(const Endpoint &endpoint)
{
    std::map<std::string, std::vector<std::string>> keys;
    std::set<std::string> known;
    for (const Delivery &one : endpoint.taken())
        if (known.insert(one.id).second)
            keys[one.key].push_back(one.id);
    return keys;
}

} // namespace

TEST(SubscriptionsWithoutKafka, AWebhookHasAllAndTheRingIsEmptiedAcrossRestartAndCrash)
{
    constexpr int kBatches = 20;
    constexpr int kBatch = 250;
    constexpr int kLimitOfBacklog = 1500; // far less than what is emitted
    Settings settings = kFaultSettings;
    settings["outbox.bootstrap_servers"] = "";
    settings["outbox.retention"] = "3s";
    settings["outbox.max_backlog_events"] = std::to_string(kLimitOfBacklog);
    OwnCluster server(settings);
    server.expect_kill();
    Endpoint endpoint;
    WebhookScene scene(server);
    scene.subscribe(endpoint.url());
    EXPECT_EQ(scene.db.value("select outbox.detach_subscription('default')"), "0");
    ASSERT_TRUE(scene.database.reaches_state("detached"));

    std::map<std::string, std::vector<std::string>> emitted;
    for (int batch = 0; batch < kBatches; batch++)
    {
        for (int i = 0; i < kBatch; i++)
        {
            const std::string key = std::to_string(i % 11);
            emitted[key].push_back(scene.emit(key));
        }
        ASSERT_TRUE(wait_until(kWebhookLimit,
                               [&]
                               {
                                   return scene.db.value(
                                              "select coalesce(backlog_events < $1, false) "
                                              "from outbox.relay_status",
                                              std::to_string(kLimitOfBacklog / 2)) == "t";
                               }))
            << scene.describe();
        if (batch == 5)
            server.restart();
        if (batch == 10)
            strike(Victim::kEverything, server, scene.database);
        if (batch == 15)
            scene.database.kill_relay();
        if (batch % 5 == 0)
            scene.db = scene.database.connect();
    }
    EXPECT_EQ(scene.db.value("select outbox.drain('60 s')"), "t") << scene.describe();
    EXPECT_EQ(arrived_at(endpoint), emitted);
    EXPECT_EQ(scene.db.value("select count(*) from outbox.event_status where status <> 'MISSED'"),
              "0");
    EXPECT_TRUE(wait_until(kWebhookLimit, [&]
                           { return scene.db.value("select count(*) from outbox.events") == "0"; }))
        << scene.db.value("select string_agg(s::text, E'\\n') from outbox.maintenance_status s");
    EXPECT_TRUE(scene.database.reaches_state("detached"));

    // One day there is a Kafka.
    server.configure("outbox.bootstrap_servers", kafka().bootstrap());
    server.reload();
    (void) scene.emit("before");
    scene.db.exec("select outbox.attach_subscription('default', 'now')");
    std::vector<std::string> later;
    for (int i = 0; i < 100; i++)
        later.push_back(scene.emit("later"));
    EXPECT_EQ(scene.db.value("select outbox.wait_published($1, '60 s')", later.back()), "t");
    EXPECT_EQ(scene.db.value("select outbox.drain('60 s')"), "t") << scene.describe();
    Consumer consumer(kafka().bootstrap(), {scene.database.topic()});
    EXPECT_TRUE(consumer.read_count(later.size(), kWebhookLimit));
    consumer.read_for(Milliseconds(300));
    std::vector<std::string> sent;
    for (const Record &record : consumer.records())
        sent.push_back(record.header("id").value_or(""));
    EXPECT_EQ(sent, later);
    EXPECT_EQ(endpoint.ids().count(later.back()), 1u);
}
