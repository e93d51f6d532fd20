// Users, rights and TLS.
#include "support/driver.h"
#include "support/nats_server.h"

#include "test/support/process.h"
#include "test/support/workspace.h"

#include <filesystem>
#include <gtest/gtest.h>

namespace outbox::test
{

namespace
{

constexpr char kUsers[] =
    R"(authorization { users: [
  { user: admin, password: topsecret }
  { user: app, password: verysecret, permissions: { publish: ["good", "$JS.API.INFO"], subscribe: ["_INBOX.>"] } }
  { user: deaf, password: verysecret, permissions: { publish: [">"], subscribe: ["good"] } }
] })";

nats::Settings
settings_of(NatsServer &server, const std::string &user, const std::string &password)
{
    nats::Settings settings = nats_settings(server.url());
    settings.user = user;
    settings.password_file = (server.directory() / (user + ".password")).string();
    write_file(settings.password_file, password + "\n");
    return settings;
}

TEST(NatsUsers, AForbiddenSubjectHoldsUpNoOther)
{
    NatsServer server(kUsers);
    server.set_user("admin", "topsecret");
    server.start();
    server.add_stream({"EVENTS", {"good", "forbidden.>"}});
    NatsDriver driver(settings_of(server, "app", "verysecret"));
    for (int i = 0; i < 5; i++)
    {
        driver.produce({"forbidden.x", "k" + std::to_string(i), "x"});
        driver.produce({"good", "k" + std::to_string(i), "x"});
    }
    ASSERT_TRUE(driver.until_empty()) << driver.texts;
    EXPECT_EQ(driver.delivered_tags.size(), 5U);
    ASSERT_EQ(driver.failures.size(), 5U);
    for (const auto &[tag, failure] : driver.failures)
    {
        EXPECT_EQ(failure.cls, FailureClass::topic);
        EXPECT_STREQ(failure.name, "NOT_PERMITTED");
    }
    EXPECT_EQ(driver.texts.find("verysecret"), std::string::npos);
}

TEST(NatsUsers, AWrongPasswordIsTroubleUntilItIsPutRight)
{
    NatsServer server(kUsers);
    server.set_user("admin", "topsecret");
    server.start();
    server.add_stream({"EVENTS", {"good"}});
    const nats::Settings settings = settings_of(server, "app", "wrongsecret");
    NatsDriver driver(settings);
    driver.produce({"good", "k", "1"});
    ASSERT_TRUE(driver.until([&] { return driver.troubles >= 2; }));
    EXPECT_STREQ(driver.last_trouble.name, "AUTHORIZATION") << driver.last_trouble.text;
    EXPECT_EQ(driver.texts.find("wrongsecret"), std::string::npos) << driver.texts;
    write_file(settings.password_file, "verysecret");
    ASSERT_TRUE(driver.until_empty()) << driver.texts;
    EXPECT_EQ(driver.delivered_tags.size(), 1U);
    std::filesystem::remove(settings.password_file);
    NatsDriver without(settings);
    ASSERT_TRUE(without.until([&] { return without.troubles >= 1; }));
    EXPECT_STREQ(without.last_trouble.name, "FILE");
    write_file(settings.password_file, "\xef\xbb\xbfverysecret\n");
    NatsDriver marked(settings);
    ASSERT_TRUE(marked.until([&] { return marked.troubles >= 1; }));
    EXPECT_NE(std::string(marked.last_trouble.text).find("byte order mark"), std::string::npos)
        << marked.last_trouble.text;
}

TEST(NatsUsers, WhoMayNotHearAnswersIsToldSo)
{
    NatsServer server(kUsers);
    server.set_user("admin", "topsecret");
    server.start();
    server.add_stream({"EVENTS", {"good"}});
    nats::Settings settings = settings_of(server, "deaf", "verysecret");
    settings.timeout_ms = 300;
    NatsDriver driver(settings);
    driver.produce({"good", "k", "1"});
    ASSERT_TRUE(
        driver.until([&] { return std::string(driver.last_trouble.name) == "NOT_PERMITTED"; }));
    EXPECT_EQ(driver.failed_text(), "");
    settings.inbox_prefix = "good";
}

// Certificates of an authority of the test's own, for server and client.
std::filesystem::path
make_certificates()
{
    const std::filesystem::path dir = run_dir() / unique_name("certificates");
    std::filesystem::create_directories(dir);
    const std::string script =
        "cd " + dir.string() +
        " && openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj "
        "/CN=ca && for who in server client; do openssl req -newkey rsa:2048 -nodes -keyout "
        "$who.key -out $who.csr -subj /CN=127.0.0.1 && printf 'subjectAltName=IP:127.0.0.1' > ext "
        "&& openssl x509 -req -in $who.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out $who.pem "
        "-days 2 -extfile ext || exit 1; done";
    (void) run_or_throw(Command({"sh", "-c", script}));
    return dir;
}

TEST(NatsTls, BothSidesAreVerified)
{
    const std::filesystem::path dir = make_certificates();
    const auto file = [&](const char *name) { return (dir / name).string(); };
    NatsServer server;
    server.start();
    server.add_stream({"EVENTS", {"a.>"}});
    server.stop();
    server.configure("tls { cert_file: \"" + file("server.pem") + "\", key_file: \"" +
                     file("server.key") + "\", ca_file: \"" + file("ca.pem") +
                     "\", verify: true }");
    server.start();

    nats::Settings settings = nats_settings(server.url());
    settings.tls = true;
    {
        NatsDriver stranger(settings); // the system's authorities do not know the server
        stranger.produce({"a.x", "k", "1"});
        ASSERT_TRUE(stranger.until([&] { return stranger.troubles >= 1; }));
        EXPECT_STREQ(stranger.last_trouble.name, "TLS") << stranger.last_trouble.text;
        EXPECT_EQ(stranger.delivered_tags.size(), 0U);
    }
    settings.ca_file = file("ca.pem");
    settings.cert_file = file("client.pem");
    // What the server has against a certificate it does not say.
    settings.cert_file.clear();
    settings.key_file.clear();
    {
        NatsDriver refused(settings);
        refused.produce({"a.x", "k", "1"});
        ASSERT_TRUE(refused.until([&] { return refused.troubles >= 1; }));
        EXPECT_NE(std::string(refused.last_trouble.text).find("cert_file"), std::string::npos)
            << refused.last_trouble.text;
    }
    const std::string stranger = file("stranger");
    (void) run_or_throw(
        Command({"openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
                 "/CN=stranger", "-keyout", stranger + ".key", "-out", stranger + ".pem"}));
    settings.cert_file = stranger + ".pem";
    settings.key_file = stranger + ".key";
    {
        NatsDriver refused(settings);
        refused.produce({"a.x", "k", "1"});
        ASSERT_TRUE(refused.until([&] { return refused.troubles >= 1; }));
        EXPECT_NE(std::string(refused.last_trouble.text).find(settings.cert_file),
                  std::string::npos)
            << refused.last_trouble.text;
    }
    settings.cert_file = file("client.pem");
    // OpenSSL would ask for the passphrase at the terminal, and has no words for what is missing.
    (void) run_or_throw(Command({"openssl", "rsa", "-aes256", "-passout", "pass:x", "-in",
                                 file("client.key"), "-out", file("encrypted.key")}));
    for (const std::string &key : {file("encrypted.key"), file("missing.key")})
    {
        settings.key_file = key;
        NatsDriver refused(settings);
        refused.produce({"a.x", "k", "1"});
        ASSERT_TRUE(refused.until([&] { return refused.troubles >= 1; }));
        EXPECT_STREQ(refused.last_trouble.name, "FILE") << refused.last_trouble.text;
        EXPECT_NE(std::string(refused.last_trouble.text).find(key), std::string::npos)
            << refused.last_trouble.text;
    }
    settings.key_file = file("client.key");
    NatsDriver driver(settings);
    for (int i = 0; i < 2000; i++)
        driver.produce({"a.x", "k" + std::to_string(i % 100), std::string(2000, 'x')});
    ASSERT_TRUE(driver.until_empty(30000)) << driver.texts;
    EXPECT_EQ(driver.delivered_tags.size(), 2000U) << driver.failed_text();

    server.stop();
    server.configure("");
    server.start();
    NatsDriver plain(settings); // asks for TLS where there is none
    plain.produce({"a.x", "k", "1"});
    ASSERT_TRUE(plain.until([&] { return plain.troubles >= 1; }));
    EXPECT_EQ(plain.delivered_tags.size(), 0U);
    EXPECT_EQ(server.count("EVENTS"), 2000U);
}

} // namespace

} // namespace outbox::test
