// Where the webhook sink must not go, and what it must not show.
#include "webhook_scene.h"

#include <gmock/gmock.h>

#include <poll.h>

#include <atomic>
#include <cstdlib>

namespace outbox::test
{

namespace
{

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

HttpServer::Handler
always(int status)
{
    return [=](const HttpRequest &) { return HttpReply::status(status); };
}

TEST(Webhook, ForbiddenAddressesAreNotConnectedTo)
{
    HttpServer server(always(200));
    for (const std::string &url :
         {server.url(), "http://localhost:" + std::to_string(server.port()) + "/",
          "http://[::ffff:127.0.0.1]:" + std::to_string(server.port()) + "/",
          "http://0.0.0.0:" + std::to_string(server.port()) + "/",
          "http://0:" + std::to_string(server.port()) + "/",
          "http://[::ffff:0.0.0.0]:" + std::to_string(server.port()) + "/",
          "http://[::]:" + std::to_string(server.port()) + "/",
          "http://2130706433:" + std::to_string(server.port()) + "/"})
    {
        Webhooks hooks(url, {},
                       [](http::Setup &setup) { setup.deny_networks = "127.0.0.0/8, ::1"; });
        hooks.produce(1, "a");
        ASSERT_TRUE(hooks.serve_until([&] { return !hooks.heard.troubles.empty(); })) << url;
        EXPECT_STREQ(hooks.heard.troubles[0].name, "ADDRESS_DENIED")
            << hooks.heard.troubles[0].text;
    }
    EXPECT_EQ(server.connections(), 0);
}

TEST(Webhook, AnUnknownHostIsTrouble)
{
    Webhooks hooks("http://no-such-host.invalid/");
    hooks.produce(1, "a");
    ASSERT_TRUE(hooks.serve_until([&] { return !hooks.heard.troubles.empty(); }));
    EXPECT_STREQ(hooks.heard.troubles[0].name, "RESOLVE");
}

// The descriptors of all uses are waited for, whether there is a sink or not.
TEST(Webhook, ALookUpWakesNoUseThatHasNoSink)
{
    HttpServer server(always(200));
    for (const char *host : {"localhost", "no-such-host.invalid"})
    {
        Webhooks hooks("http://" + std::string(host) + ":" + std::to_string(server.port()) + "/");
        std::unique_ptr<Sink> ended = hooks.open(Destination::Use::replay);
        hooks.produce(1, "a");
        ASSERT_TRUE(hooks.serve_until(
            [&] { return hooks.heard.results() == 1 || !hooks.heard.troubles.empty(); }));
        ended.reset();
        for (const auto use : {Destination::Use::redelivery, Destination::Use::replay})
        {
            pollfd look = {hooks.destination->wake_fd(use), POLLIN, 0};
            EXPECT_EQ(poll(&look, 1, 0), 0) << host << ", use " << static_cast<int>(use);
        }
    }
}

TEST(Webhook, EnvironmentAndNetrcAreLeftAlone)
{
    HttpServer proxy(always(200));
    HttpServer server(always(200));
    (void) setenv("http_proxy", proxy.url().c_str(), 1);
    (void) setenv("all_proxy", proxy.url().c_str(), 1);
    Webhooks hooks(server.url());
    hooks.produce(1, "a");
    ASSERT_TRUE(hooks.settle(1));
    (void) unsetenv("http_proxy");
    (void) unsetenv("all_proxy");
    EXPECT_EQ(proxy.count(), 0u);
    EXPECT_FALSE(server.requests().at(0).has_header("authorization"));
}

TEST(Webhook, NoSecretComesBackInAnAnswer)
{
    HttpServer server(
        [](const HttpRequest &request)
        {
            return HttpReply::status(400, "you sent " + request.header("authorization") +
                                              " and MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3");
        });
    const TextFile headers("Authorization: Bearer tok-5ecret\n");
    Webhooks hooks(server.url("/path-of-a-secret"), {{"headers_file", headers.path()}});
    hooks.produce(1, "a");
    ASSERT_TRUE(hooks.settle(1));
    EXPECT_EQ(server.requests().at(0).header("authorization"), "Bearer tok-5ecret");
    const std::string text = hooks.heard.failures.at(0).second.text;
    EXPECT_THAT(text, AllOf(HasSubstr("you sent *** and ***"), Not(HasSubstr("path-of-a-secret"))));
}

// An answer is cut for what is shown, in the middle of a secret perhaps, and blanks that follow
// each other are one then.
TEST(Webhook, NoPartOfASecretComesBackInAnAnswer)
{
    const std::string secret = "tok-0123456789abcdefghijklmnopqrstuvwxyz  with-two-blanks";
    std::atomic<std::size_t> padding{0};
    HttpServer server(
        [&](const HttpRequest &request)
        {
            return HttpReply::status(400, std::string(padding, '.') +
                                              request.header("x-shared-key") + " and more");
        });
    const TextFile headers("X-Shared-Key: " + secret + "\n");
    Webhooks hooks(server.url(), {{"headers_file", headers.path()}});
    std::size_t count = 0;
    for (padding = 900; padding < 1024; padding++)
    {
        hooks.produce(++count, "a");
        ASSERT_TRUE(hooks.settle(count));
        const std::string text = hooks.heard.failures.back().second.text;
        for (std::size_t at = 0; at + 4 <= secret.size(); at++)
            EXPECT_THAT(text, Not(HasSubstr(secret.substr(at, 4)))) << padding;
    }
}

TEST(Webhook, TlsIsCheckedWithTheAuthorityAndAClientCertificate)
{
    HttpServer server(always(200), {true, true});
    const TlsFiles &files = tls_files();
    Webhooks good(
        server.url(),
        {{"ca_file", files.ca}, {"cert_file", files.client_cert}, {"key_file", files.client_key}});
    good.produce(1, "a");
    good.produce(2, "a");
    ASSERT_TRUE(good.settle(2));
    EXPECT_EQ(good.heard.acked.size(), 2u);
    EXPECT_EQ(server.connections(), 1);
    for (const Given &bad : {Given{}, Given{{"ca_file", files.ca}}})
    {
        Webhooks hooks(server.url(), bad);
        hooks.produce(1, "a");
        ASSERT_TRUE(hooks.serve_until([&] { return !hooks.heard.troubles.empty(); }));
        EXPECT_EQ(hooks.heard.results(), 0u);
        EXPECT_THAT(std::string(hooks.heard.troubles[0].name), testing::AnyOf("TLS", "CLOSED"))
            << hooks.heard.troubles[0].text;
    }
    EXPECT_EQ(server.count(), 2u);
}

} // namespace

} // namespace outbox::test
