// Signatures and events as the reference libraries of others see them; and HTTP/2.
#include "webhook_subscription_scene.h"

#include "support/tree.h"

using namespace outbox::test;

namespace
{

// A receiver takes what is signed by one of two secrets, and refuses what is not.
void
expect_verified(const std::vector<std::string> &words,
                std::map<std::string, std::string> environment = {})
{
    environment["WEBHOOK_SECRET"] = kWebhookSecret;
    const ReceiverProgram receiver(words, environment);
    WebhookScene scene(cluster());
    // The second of two, while they rotate.
    write_file(scene.secret_file,
               "whsec_YWJjZGVmYWJjZGVmYWJjZGVmYWJjZGVm\n" + std::string(kWebhookSecret) + "\n");
    scene.subscribe(receiver.url(), "'max_attempts', 1");
    for (const char *payload :
         {"{}", "[1, 2.50, \"\\u00e9\\n\"]", "null", "\"a b\"", "{\"a\": {\"b\": null}}"})
        (void) scene.emit(payload, payload);
    scene.db.exec("select outbox.emit($1, 'none', 'made', null)", scene.database.type());
    EXPECT_TRUE(wait_until(kWebhookLimit, [&] { return receiver.lines("received").size() == 6; }))
        << receiver.output() << scene.describe();
    write_file(scene.secret_file, "whsec_YWJjZGVmYWJjZGVmYWJjZGVmYWJjZGVm\n");
    scene.db.exec("select pg_reload_conf()");
    EXPECT_TRUE(wait_until(kWebhookLimit,
                           [&]
                           {
                               (void) scene.emit();
                               return scene.status("failed_events") != "0";
                           }))
        << receiver.output() << scene.describe();
    EXPECT_NE(scene.db.value("select last_error from outbox.dead_letters limit 1").find("HTTP_401"),
              std::string::npos);
}

} // namespace

TEST(WebhookLibraries, StandardWebhooksForPythonVerifies)
{
    const std::string dir = webhook_libraries("python");
    expect_verified({dir + "/bin/python", in_source("docs/webhooks/receiver.py"), "0"},
                    {{"RECEIVER_DATABASE", (run_dir() / unique_name("received-")).string()}});
}

TEST(WebhookLibraries, StandardWebhooksForJavaScriptVerifies)
{
    // Modules are looked for beside the file that imports them.
    const std::string dir = webhook_libraries("javascript");
    const std::string file = dir + "/receiver.mjs";
    write_file(file, read_file(in_source("docs/webhooks/receiver.mjs")));
    expect_verified({"node", file, "0"});
}

TEST(WebhookLibraries, StandardWebhooksForGoVerifies)
{
    expect_verified({webhook_libraries("go") + "/receiver", "0"});
}

TEST(WebhookLibraries, TheSdkOfCloudEventsReadsBothModes)
{
    const std::string dir = webhook_libraries("python");
    for (const char *format : {"cloudevents", "cloudevents-structured"})
    {
        const ReceiverProgram receiver(
            {dir + "/bin/python", in_source("test/sinks/http/receivers/cloudevents_receiver.py"),
             "0"});
        WebhookScene scene(cluster());
        scene.subscribe(receiver.url(), "'format', '" + std::string(format) +
                                            "', 'cloudevents_source', '/shop', "
                                            "'max_attempts', 1");
        const std::string id = scene.emit("k\xc3\xa9y 1", "{\"total\": 25.5, \"x\": [null]}");
        EXPECT_TRUE(wait_until(kWebhookLimit, [&] { return receiver.lines("{").size() == 1; }))
            << receiver.output() << scene.describe();
        const std::string line = receiver.lines("{").at(0);
        const std::string type = scene.database.type();
        for (const std::string &part :
             {"\"id\": \"" + id + "\"", std::string("\"type\": \"made\""),
              std::string("\"source\": \"/shop\""), std::string("\"subject\": \"k\\u00e9y 1\""),
              "\"aggregatetype\": \"" + type + "\"",
              std::string("\"data\": {\"total\": 25.5, \"x\": [null]}")})
            EXPECT_NE(line.find(part), std::string::npos) << part << " in " << line;
    }
}

// Over one connection, and over the next one when it ends; a stream that is reset is tried again.
TEST(WebhookLibraries, Http2IsSpokenWhereItIsOffered)
{
    const std::string dir = webhook_libraries("python");
    const TlsFiles &files = tls_files();
    for (const char *mode : {"calm", "trouble"})
    {
        const ReceiverProgram receiver({dir + "/bin/python",
                                        in_source("test/sinks/http/receivers/h2_server.py"),
                                        files.server_cert, files.server_key, mode},
                                       {}, "https");
        WebhookScene scene(cluster());
        const std::string ca = file_for_server(read_file(files.ca));
        scene.subscribe(receiver.url(), "'ca_file', '" + ca + "'");
        scene.db.exec("select outbox.emit($1, (i % 50)::text, 'made', '{}') "
                      "from generate_series(1, 1000) i",
                      scene.database.type());
        EXPECT_TRUE(scene.reaches("published_total", "1000")) << scene.describe();
        const auto lines = receiver.lines("received");
        EXPECT_GE(lines.size(), 1000u);
        std::set<std::string> connections;
        for (const std::string &line : lines)
            connections.insert(line.substr(line.find("connection")));
        if (std::string(mode) == "calm")
        {
            EXPECT_EQ(lines.size(), 1000u);
            EXPECT_EQ(connections.size(), 1u);
        }
    }
}
