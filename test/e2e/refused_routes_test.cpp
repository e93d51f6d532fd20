// What becomes of events that Kafka has refused when their routes say so, or change.
#include <map>

#include "real_kafka_test.h"
#include "small_topic.h"

using namespace outbox::test;

namespace
{

constexpr auto kLimit = std::chrono::seconds(30);

} // namespace

REAL_KAFKA_TEST(RefusedRoutes, OnFailureIsThatOfTheRoute)
{
    SmallTopic scene(cluster());
    scene.db().exec("insert into outbox.routes (aggregate_type, event_type, on_failure) "
                    "values ($1, 'large', 'skip')",
                    scene.database().type());
    const std::string first = scene.emit_too_large("k");
    const std::string second = scene.emit("k");
    ASSERT_TRUE(scene.arrive({second})) << scene.describe();
    ASSERT_TRUE(scene.reaches_status(first, "FAILED")) << scene.describe();
    scene.db().exec("delete from outbox.routes");
    const std::string third = scene.emit_too_large("k");
    const std::string fourth = scene.emit("k");
    ASSERT_TRUE(scene.reaches_status(third, "FAILED")) << scene.describe();
    scene.expect_only("k", {second});
    scene.db().exec("select outbox.discard($1, 'test')", third);
    EXPECT_TRUE(scene.arrive({fourth})) << scene.describe();
}

// The event that is being retried begins anew in the new topic, its line follows, and then what is
// emitted meanwhile.
REAL_KAFKA_TEST(RefusedRoutes, WhatWasSetAsideFollowsANewRouteInOrderBeforeAnythingNewer)
{
    for (const bool failed : {false, true})
    {
        SmallTopic scene(cluster(), {{"outbox.max_attempts", failed ? "1" : "1000"}});
        const std::string wide = scene.database().name() + ".wide";
        kafka().create_topic(wide, 1);
        Consumer consumer(kafka().bootstrap(), {wide});
        Ids expected = {scene.emit_too_large("k")};
        for (const std::string &id : scene.emit_several("k", 40))
            expected.push_back(id);
        ASSERT_TRUE(wait_until(kLimit, [&] { return scene.deliveries("WAITING") == 40; }))
            << scene.describe();
        scene.db().exec("insert into outbox.routes (aggregate_type, topic) values ($1, $2)",
                        scene.database().type(), wide);
        for (const std::string &id : scene.emit_several("k", 5))
            expected.push_back(id);
        if (failed)
        {
            // Given up is given up; and what it holds up waits for it in the new topic.
            ASSERT_TRUE(wait_until(kLimit, [&] { return scene.deliveries("WAITING") == 45; }))
                << scene.describe();
            EXPECT_EQ(scene.db().value("select topic from outbox.dead_letters"), wide);
            scene.db().exec("select outbox.retry($1)", expected[0]);
        }
        ASSERT_TRUE(consumer.read_count(expected.size(), kLimit)) << scene.describe();
        consumer.read_for(Milliseconds(300));
        Ids arrived;
        for (const Record &record : consumer.records())
            arrived.push_back(record.header("id").value_or(""));
        EXPECT_EQ(arrived, expected) << scene.describe();
        scene.expect_only("k", {});
        EXPECT_TRUE(wait_until(kLimit, [&] { return scene.deliveries() == 0; }))
            << scene.describe();
    }
}

// Kafka refuses events while the route is being changed: in the new topic none is behind what was
// emitted after it.
REAL_KAFKA_TEST(RefusedRoutes, AnEventThatIsRefusedDuringAChangeIsNotOvertakenInTheNewTopic)
{
    constexpr int kRounds = 25;
    SmallTopic scene(cluster(), {{"outbox.max_attempts", "1000"}});
    const std::string wide = scene.database().name() + ".wide";
    kafka().create_topic(wide, 1);
    Consumer consumer(kafka().bootstrap(), {wide});
    scene.db().exec("create procedure public.play(type text, key text, topic text) language "
                    "plpgsql as $$ begin "
                    "delete from outbox.routes; commit; "
                    "perform outbox.emit(type, key, 'large', to_jsonb(repeat('x', 6000))); commit; "
                    "perform pg_sleep(random() * 0.004); "
                    "insert into outbox.routes (aggregate_type, topic) values (type, topic); "
                    "commit; "
                    "for i in 1..3 loop perform outbox.emit(type, key, 'small', to_jsonb(i)); "
                    "commit; end loop; end $$");
    size_t expected = 0;
    for (int round = 0; round < kRounds; ++round)
    {
        scene.db().exec("call public.play($1, $2, $3)", scene.database().type(),
                        "k" + std::to_string(round), wide);
        expected += 4;
        ASSERT_TRUE(consumer.read_count(expected, kLimit)) << scene.describe();
    }
    std::map<std::string, std::string> sizes; // of a key's values, in their order
    for (const Record &record : consumer.records())
        sizes[*record.key] += record.value->size() > 1000 ? "L" : *record.value;
    for (const auto &[key, order] : sizes)
        EXPECT_EQ(order, "L123") << key;
    EXPECT_EQ(scene.db().value("select count(*) from outbox.routes"), "1");
    scene.expect_only("k0", {});
}
