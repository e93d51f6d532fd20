// Settings that the server starts without.
#include "servers.h"

using namespace outbox::test;

// PostgreSQL starts with a value that the library refuses, and takes the default: events would go
// to other topics. They wait until the setting is corrected, or taken out, whichever it is.
TEST(Settings, OneThatTheServerStartsWithoutStopsTheRelayUntilItIsCorrected)
{
    struct Case
    {
        const char *name;
        const char *wrong;
        const char *right;
    };
    constexpr Case kCases[] = {
        {"outbox.topic_template", "{no_such_field}", "settings_outbox.event.{aggregate_type}"},
        {"outbox.retention", "7 dayz", "30 d"},
        {"Outbox.Headers_Format", "cloudevent", "cloudevents"},
        {"outbox.max_in_flight", "-1", "2000"}};
    OwnCluster server;
    TestDatabase database(server);
    kafka().create_topic(database.topic());
    kafka().create_topic("settings_" + database.topic());
    // In place of what a role sets the relay has what the server has.
    database.connect().exec("alter role postgres set outbox.topic_template = 'of_the_role'");
    for (const Case &wrong : kCases)
    {
        for (const bool corrected : {true, false})
        {
            server.configure(wrong.name, wrong.wrong);
            server.restart();
            Db db = database.connect();
            ASSERT_TRUE(database.reaches_state("config_error")) << wrong.name;
            const std::string problem = db.value("select config_error from outbox.relay_status");
            EXPECT_NE(problem.find("was refused when the server started"), std::string::npos)
                << problem;
            EXPECT_NE(problem.find("; correct it"), std::string::npos) << problem;
            const std::string id =
                db.value("select outbox.emit($1, 'k', 'made', '{}')", database.type());
            server.reload(); // it is wrong as before
            EXPECT_EQ(db.value("select outbox.wait_published($1, '500 ms')", id), "f")
                << wrong.name;
            EXPECT_TRUE(database.reaches_state("config_error"));
            if (corrected)
                server.configure(wrong.name, wrong.right);
            else
                server.unconfigure(wrong.name);
            server.reload();
            EXPECT_EQ(db.value("select outbox.wait_published($1, '20 s')", id), "t")
                << wrong.name << ": " << db.value("select r::text from outbox.relay_status r");
        }
    }
    // One event has gone to each: the others to the topic of the default.
    Consumer consumer(kafka().bootstrap(), {"settings_" + database.topic()});
    EXPECT_TRUE(consumer.read_count(1, std::chrono::seconds(20)));
}
