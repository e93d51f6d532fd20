// TLS of webhooks: its files, those that change, and those that cannot be used.
#include "webhook_subscription_scene.h"

using namespace outbox::test;

TEST(Webhooks, TlsWithAnAuthorityAndAClientCertificateAndAFileThatChanges)
{
    const TlsFiles &files = tls_files();
    HttpServer endpoint([](const HttpRequest &) { return HttpReply::status(204); }, {true, true});
    WebhookScene scene(cluster());
    const std::string ca = file_for_server(read_file(files.client_cert)); // not the authority's
    scene.subscribe(endpoint.url(), "'ca_file', '" + ca + "', 'cert_file', '" + files.client_cert +
                                        "', 'key_file', '" + files.client_key + "'");
    (void) scene.emit();
    ASSERT_TRUE(
        wait_until(kWebhookLimit, [&] { return scene.status("last_error").find("TLS: ") == 0; }))
        << scene.describe();
    write_file(ca, read_file(files.ca));
    scene.db.exec("select pg_reload_conf()");
    EXPECT_TRUE(wait_until(kWebhookLimit, [&] { return endpoint.count() == 1; }))
        << scene.describe();
}

// The old content stays in force until the relay starts anew. The server would end all of its
// processes if libcurl were given a key that is encrypted.
TEST(Webhooks, FilesOfTlsThatAreNotUsableEndNeitherRelayNorServer)
{
    const TlsFiles &files = tls_files();
    HttpServer endpoint([](const HttpRequest &) { return HttpReply::status(204); }, {true, true});
    OwnCluster server;
    WebhookScene scene(server);
    const std::string ca = file_for_server(read_file(files.ca));
    const std::string key = file_for_server(read_file(files.client_key));
    scene.subscribe(endpoint.url(), "'ca_file', '" + ca + "', 'cert_file', '" + files.client_cert +
                                        "', 'key_file', '" + key + "'");
    std::size_t count = 0;
    const auto next_arrives = [&]
    {
        (void) scene.emit();
        count++;
        return wait_until(kWebhookLimit, [&] { return endpoint.count() == count; });
    };
    const auto reload =
        [&](const std::string &path, const std::string &content, const std::string &error)
    {
        write_file(path, content);
        scene.db.exec("select pg_reload_conf()");
        return wait_until(kWebhookLimit,
                          [&]
                          {
                              const std::string now = scene.status("config_error");
                              return error.empty() ? now.empty()
                                                   : now.find(error) != std::string::npos;
                          });
    };
    ASSERT_TRUE(next_arrives()) << scene.describe();
    EXPECT_TRUE(reload(ca, "garbage", "ca_file \"" + ca)) << scene.describe();
    EXPECT_TRUE(next_arrives()) << scene.describe();
    EXPECT_TRUE(reload(ca, read_file(files.ca), "")) << scene.describe();
    for (const std::string &bad : {files.server_key, encrypted_keys()[0], encrypted_keys()[1]})
    {
        EXPECT_TRUE(reload(key, read_file(bad), "key_file \"" + key)) << scene.describe();
        EXPECT_TRUE(next_arrives()) << scene.describe();
    }
    scene.db.exec("select outbox.alter_subscription(name, options) from outbox.subscriptions");
    (void) scene.emit();
    count++;
    ASSERT_TRUE(scene.reaches("state", "config_error")) << scene.describe();
    EXPECT_TRUE(reload(key, read_file(files.client_key), "")) << scene.describe();
    EXPECT_TRUE(wait_until(kWebhookLimit, [&] { return endpoint.count() == count; }))
        << scene.describe();
    EXPECT_EQ(server.log_text().find("signal 11"), std::string::npos);
}
