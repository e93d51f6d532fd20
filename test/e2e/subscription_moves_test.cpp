// Two Kafka clusters: one of them dies, and a subscription moves from one to the other.
#include <atomic>
#include <thread>

#include "subscription_scene.h"

using namespace outbox::test;

namespace
{

using ByKey = std::map<std::string, Ids>;

// What arrived in the topic, for each key in the order of first arrival.
ByKey
arrived(const std::string &servers, const std::string &topic, size_t count, size_t *repeats)
{
    Consumer consumer(servers, {topic});
    ByKey keys;
    std::set<std::string> known;
    EXPECT_TRUE(wait_until(kLimit,
                           [&]
                           {
                               consumer.read_for(Milliseconds(200));
                               keys.clear();
                               known.clear();
                               for (const Record &record : consumer.records())
                                   if (const std::string id = record.header("id").value_or("");
                                       known.insert(id).second)
                                       keys[*record.key].push_back(id);
                               return known.size() >= count;
                           }))
        << known.size();
    *repeats = consumer.records().size() - known.size();
    return keys;
}

size_t
count(const ByKey &keys)
{
    size_t all = 0;
    for (const auto &[key, ids] : keys)
        all += ids.size();
    return all;
}

} // namespace

TEST(SubscriptionMoves, AClusterThatDiesHoldsUpNoOtherAndGetsAllWhenItIsBack)
{
    const std::unique_ptr<Kafka> other = make_kafka();
    other->start();
    OwnCluster server;
    Scene scene(server);
    scene.create("near");
    other->create_topic(scene.topic("far"));
    scene.create("far", "", other->bootstrap());
    Ids expected{scene.emit()};
    EXPECT_EQ(scene.sent("far", 1, other->bootstrap()), expected);
    EXPECT_EQ(scene.db.value("select outbox.drain('20 s', 'far')"), "t");
    other->kill9();
    for (int i = 0; i < 50; ++i)
        expected.push_back(scene.emit());
    EXPECT_EQ(scene.db.value("select outbox.drain('20 s', 'default')"), "t");
    EXPECT_EQ(scene.sent("near", 51), expected);
    EXPECT_TRUE(scene.becomes("far", "backing_off")) << scene.describe();
    EXPECT_TRUE(server.log_contains("subscription \"far\"")) << "the log says whose trouble it is";
    EXPECT_EQ(scene.db.value("select count(*) from outbox.delivery_status "
                             "where subscription = 'far' and status = 'NEW'"),
              "50");
    other->start();
    EXPECT_EQ(scene.db.value("select outbox.drain('30 s', 'far')"), "t") << scene.describe();
    size_t repeats = 0;
    EXPECT_EQ(arrived(other->bootstrap(), scene.topic("far"), 51, &repeats),
              (ByKey{{"k", expected}}));
}

// Under load: all that is in A came before all that is in B, for each key.
TEST(SubscriptionMoves, OneMovesFromClusterToClusterWithoutAGap)
{
    const std::unique_ptr<Kafka> other = make_kafka();
    other->start();
    OwnCluster server;
    Scene scene(server);
    scene.create("moving");
    other->create_topic(scene.topic("moving"));
    std::atomic<bool> enough{false};
    ByKey emitted;
    std::thread load(
        [&]
        {
            Db session = scene.database.connect();
            for (int i = 0; !enough; ++i)
            {
                const std::string key = std::to_string(i % 5);
                emitted[key].push_back(Scene::emit(session, scene.database.type(), "made", key));
            }
        });
    const auto published = [&](long least)
    {
        return wait_until(kLimit,
                          [&] { return std::stol(scene.of("published_total", "moving")) > least; });
    };
    EXPECT_TRUE(published(200)) << scene.describe();
    scene.db.exec("select outbox.alter_subscription('moving', " +
                  Scene::options("moving", other->bootstrap()) + ")");
    const long then = std::stol(scene.of("published_total", "moving"));
    EXPECT_TRUE(published(then + 500)) << scene.describe();
    enough = true;
    load.join();
    EXPECT_EQ(scene.db.value("select outbox.drain('30 s', 'moving')"), "t") << scene.describe();

    size_t repeats_here = 0;
    size_t repeats_there = 0;
    const ByKey here = arrived(kafka().bootstrap(), scene.topic("moving"), 1, &repeats_here);
    const ByKey there = arrived(other->bootstrap(), scene.topic("moving"),
                                count(emitted) - count(here), &repeats_there);
    EXPECT_EQ(repeats_here, 0U);
    EXPECT_EQ(repeats_there, 0U);
    EXPECT_GT(count(there), 0U);
    ByKey both = here;
    for (const auto &[key, ids] : there)
        for (const std::string &id : ids)
            if (std::find(both[key].begin(), both[key].end(), id) == both[key].end())
                both[key].push_back(id);
    EXPECT_EQ(both, emitted);
}

// What is sent is what the lists said when it was committed, however it was in flight then.
TEST(SubscriptionMoves, AnotherFilterHoldsExactlyFromItsCallOn)
{
    OwnCluster server;
    Scene scene(server);
    scene.create("filtered", ", event_types => '{even}'");
    std::atomic<bool> enough{false};
    std::vector<std::thread> load;
    for (int worker = 0; worker < 3; ++worker)
        load.emplace_back(
            [&]
            {
                Db session = scene.database.connect();
                for (int i = 0; !enough; ++i)
                    (void) Scene::emit(session, scene.database.type(), i % 2 == 0 ? "even" : "odd");
            });
    for (int change = 0; change < 6; ++change)
    {
        scene.db.exec("select pg_sleep(0.3)");
        scene.db.exec(std::string("select outbox.alter_subscription('filtered', null, '{") +
                      (change % 2 == 0 ? "odd" : "even") + "}')");
    }
    enough = true;
    for (std::thread &one : load)
        one.join();
    EXPECT_EQ(scene.db.value("select outbox.drain('30 s', 'filtered')"), "t") << scene.describe();
    const Ids told = scene.db.column("select event_id from outbox.delivery_status where "
                                     "subscription = 'filtered' and status = 'PUBLISHED'");
    const Ids sent = scene.sent("filtered", told.size());
    EXPECT_EQ(std::set<std::string>(sent.begin(), sent.end()),
              std::set<std::string>(told.begin(), told.end()));
    EXPECT_GT(number(scene.db, "select count(*) from outbox.delivery_status where "
                               "subscription = 'filtered' and status = 'NOT_TAKEN'"),
              0);
}
