// Where events go, with which headers, and what happens when that is changed.
#include <atomic>
#include <map>
#include <set>
#include <thread>

#include "routes_scene.h"

using namespace outbox::test;

TEST(Routes, EachEventGoesWhereItsMostSpecificRowSaysAndARowThatIsDeletedCountsNoMore)
{
    RoutesScene scene({"paid", "all.sent"});
    scene.route("*", scene.database.name() + ".all.{event_type}");
    scene.route("paid", scene.topics[0]);
    scene.emit("paid");
    EXPECT_EQ(scene.next().topic, scene.topics[0]);
    scene.emit("sent");
    EXPECT_EQ(scene.next().topic, scene.topics[1]);
    scene.db.exec("delete from outbox.routes");
    scene.emit("paid");
    const Record plain = scene.next();
    EXPECT_EQ(plain.topic, scene.database.topic());
    EXPECT_EQ(plain.key, "k");
}

TEST(Routes, CloudEventsHeadersAreThoseOfTheKafkaBindingInBinaryMode)
{
    RoutesScene scene({});
    const std::string source = "/" + scene.database.name();
    scene.db.exec("insert into outbox.routes (headers_format) values ('cloudevents')");
    const std::string id = scene.emit("paid", R"('{"a": 1}')");
    const Record json = scene.next();
    Headers more = {{"content-type", "application/json"}};
    EXPECT_EQ(json.headers, scene.cloudevents_headers(id, source) + more);
    EXPECT_EQ(json.key, "k");
    EXPECT_EQ(json.value, R"({"a": 1})");

    const std::string raw =
        scene.db.value(R"(select outbox.emit_bytes($1, 'k', 'raw', '\x00ff', schema_version => 3))",
                       scene.database.type());
    more = {{"ce_schemaversion", "3"}, {"content-type", "application/octet-stream"}};
    EXPECT_EQ(scene.next().headers, scene.cloudevents_headers(raw, source) + more);

    const std::string none = scene.emit("deleted", "null");
    EXPECT_EQ(scene.next().headers, scene.cloudevents_headers(none, source));
    EXPECT_EQ(scene.consumer->records().back().value, std::nullopt);
}

TEST(Routes, TheCallersHeadersStayExceptAttributesThatTheRelaySets)
{
    RoutesScene scene({});
    const std::string source = "https://example.com/a%20b";
    scene.db.exec("alter database " + scene.database.name() + " set outbox.cloudevents_source = '" +
                  source + "'");
    scene.db.exec("alter database " + scene.database.name() +
                  " set outbox.headers_format = 'both'");
    scene.db.exec("select pg_reload_conf()");
    const std::string callers =
        R"('{}', headers => '{"ce_id": "mine", "ce_type": "mine", "ce_dataschema": "urn:x", )"
        R"("content-type": "application/avro", "n": 7}')";
    // The relay takes settings up when it hears of them.
    ASSERT_TRUE(wait_until(kRouteLimit,
                           [&]
                           {
                               scene.emit("probe");
                               return scene.next().header("ce_source") == source;
                           }));
    const std::string both = scene.emit("paid", callers);
    Headers left = {{"n", "7"}, {"content-type", "application/avro"}, {"ce_dataschema", "urn:x"}};
    EXPECT_EQ(scene.next().headers,
              scene.debezium_headers(both) + scene.cloudevents_headers(both, source) + left);
    // A route wins over the setting; with Debezium's headers these are nothing special.
    scene.db.exec("insert into outbox.routes (headers_format) values ('debezium')");
    const std::string plain = scene.emit("paid", callers);
    left = {{"n", "7"},
            {"ce_id", "mine"},
            {"ce_type", "mine"},
            {"content-type", "application/avro"},
            {"ce_dataschema", "urn:x"}};
    EXPECT_EQ(scene.next().headers, scene.debezium_headers(plain) + left);
}

// While clients emit, the topic changes all the time, now and then by a prepared transaction. What
// is emitted after a change goes to the new topic; nothing is lost, repeated or overtaken.
TEST(Routes, ChangesUnderLoadKeepTheOrderOfEachKeyInEachTopic)
{
    constexpr int kClients = 3;
    constexpr int kChanges = 24;
    RoutesScene scene({"one", "two", "three"});
    std::atomic<bool> stop{false};
    std::vector<std::thread> clients;
    for (int client = 0; client < kClients; ++client)
        clients.emplace_back(
            [&, client]
            {
                Db db = scene.database.connect();
                for (int i = 0; !stop; ++i)
                    db.exec("select outbox.emit($1, $2, 'made', to_jsonb($3::int))",
                            scene.database.type(),
                            "k" + std::to_string(client) + "." + std::to_string(i % 5), i);
            });
    const auto end_clients = [&]
    {
        stop = true;
        for (std::thread &client : clients)
            client.join();
    };
    std::map<std::string, std::string> expected; // marker's id -> topic
    for (int change = 0; change < kChanges; ++change)
    {
        const std::string &topic = scene.topics[static_cast<size_t>(change % 3)];
        const bool prepared = change % 4 == 3;
        if (prepared)
            scene.db.exec("begin");
        scene.route("*", topic);
        if (prepared)
        {
            const std::string name = "'" + scene.database.name() + "'";
            scene.db.exec("prepare transaction " + name);
            scene.db.exec("commit prepared " + name);
        }
        // An event that is not yet handed over would take the next change, too.
        const std::string marker = scene.emit("marker");
        expected[marker] = topic;
        EXPECT_EQ(scene.db.value("select outbox.wait_published($1, '20 s')", marker), "t");
    }
    end_clients();

    const size_t count = std::stoul(scene.db.value("select count(*) from outbox.events"));
    ASSERT_GT(count, static_cast<size_t>(kChanges * kClients));
    ASSERT_TRUE(scene.consumer->read_count(count, kRouteLimit)) << scene.consumer->records().size();
    scene.consumer->read_for(Milliseconds(300));
    EXPECT_EQ(scene.consumer->records().size(), count) << "each event once";
    std::set<std::string> ids;
    std::map<std::pair<std::string, std::string>, int> last;
    std::set<std::string> used;
    for (const Record &record : scene.consumer->records())
    {
        const std::string id = record.header("id").value_or("");
        ids.insert(id);
        used.insert(record.topic);
        const auto marker = expected.find(id);
        if (marker != expected.end())
        {
            EXPECT_EQ(record.topic, marker->second) << "emitted after the change";
            continue;
        }
        int &before = last.emplace(std::pair(record.topic, *record.key), -1).first->second;
        EXPECT_GT(std::stoi(*record.value), before) << record.topic << " " << *record.key;
        before = std::stoi(*record.value);
    }
    EXPECT_EQ(ids.size(), count);
    EXPECT_GE(used.size(), 3U);
}

// A superuser can switch the checks off.
TEST(Routes, ATableThatCannotBeUsedLosesNothing)
{
    RoutesScene scene({"good", "later"});
    scene.route("*", scene.topics[0]);
    scene.emit("made");
    EXPECT_EQ(scene.next().topic, scene.topics[0]);

    const auto damage = [&](const std::string &topic)
    {
        scene.db.exec("begin");
        scene.db.exec("alter table outbox.routes disable trigger user");
        scene.db.exec("update outbox.routes set topic = $1", topic);
        scene.db.exec("alter table outbox.routes enable always trigger before_change");
        scene.db.exec("alter table outbox.routes enable always trigger after_change");
        scene.db.exec("commit");
    };
    damage("not a topic");
    scene.emit("made");
    EXPECT_EQ(scene.next().topic, scene.topics[0]) << "as before";
    const auto problem = [&]
    {
        return scene.db.value("select coalesce(state || ' ' || config_error, state) "
                              "from outbox.relay_status");
    };
    EXPECT_TRUE(
        wait_until(kRouteLimit, [&] { return problem().rfind("running outbox.routes", 0) == 0; }))
        << problem();

    // Without a memory of better times nothing goes out.
    scene.db.exec("select pg_terminate_backend(pid) from outbox.relay_status");
    EXPECT_TRUE(wait_until(kRouteLimit,
                           [&] { return problem().rfind("config_error outbox.routes", 0) == 0; }))
        << problem();
    const std::string kept = scene.emit("made");
    EXPECT_EQ(scene.db.value("select outbox.wait_published($1, '300 ms')", kept), "f");
    scene.route("*", scene.topics[1]);
    const Record record = scene.next();
    EXPECT_EQ(record.header("id"), kept);
    EXPECT_EQ(record.topic, scene.topics[1]);
    EXPECT_TRUE(wait_until(kRouteLimit, [&] { return problem() == "running"; })) << problem();
}

TEST(Routes, WhoeverHoldsTheTableHoldsUpNoEmit)
{
    RoutesScene scene({"good"});
    scene.route("*", scene.topics[0]);
    Db person = scene.database.connect();
    person.exec("begin");
    person.exec("lock table outbox.routes in access exclusive mode");
    Db fresh = scene.database.connect(); // has not read the table
    fresh.exec("set statement_timeout = '10s'");
    const std::string id =
        fresh.value("select outbox.emit($1, 'k', 'made', '{}')", scene.database.type());
    person.exec("rollback");
    const Record record = scene.next();
    EXPECT_EQ(record.header("id"), id);
    EXPECT_EQ(record.topic, scene.topics[0]);
}
