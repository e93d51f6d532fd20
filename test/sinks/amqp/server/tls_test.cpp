// Connections with TLS: what is trusted, and what is said of what is not.
#include "traffic.h"

#include "support/workspace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outbox::test
{

namespace
{

using testing::HasSubstr;

amqp::Settings
tls_settings(const Scene &scene)
{
    amqp::Settings settings = scene.settings();
    settings.host = "localhost";
    settings.port = shared_server().tls_port();
    settings.tls.on = true;
    settings.tls.ca_file = shared_server().directory() / "ca.pem";
    return settings;
}

TEST(AmqpTls, MessagesArrive)
{
    Scene scene;
    amqp::Settings settings = tls_settings(scene);
    settings.tls.cert_file = shared_server().directory() / "client.pem";
    settings.tls.key_file = shared_server().directory() / "client.key";
    AmqpDriver driver(settings);
    Traffic traffic(scene, driver);
    ASSERT_TRUE(traffic.run_for(1000));
    (void) driver.produce("a", "large", std::string(1000000, 'x'));
    ASSERT_TRUE(driver.serve_until_settled());
    EXPECT_TRUE(driver.ear().troubles.empty());
}

TEST(AmqpTls, CertificateOfAnotherHostIsNotTrusted)
{
    Scene scene;
    amqp::Settings settings = tls_settings(scene);
    settings.host = "127.0.0.1";
    AmqpDriver driver(settings);
    ASSERT_TRUE(driver.serve_until_trouble("cannot connect with TLS"));
    EXPECT_THAT(driver.ear().troubles.front().hint, HasSubstr("for the host"));
}

// librabbitmq would wait for the passphrase at the terminal.
TEST(AmqpTls, AKeyWithAPassphraseIsNamed)
{
    Scene scene;
    amqp::Settings settings = tls_settings(scene);
    const std::string key = shared_server().directory() / unique_name("encrypted.key");
    (void) run_or_throw(Command({"openssl", "rsa", "-aes256", "-passout", "pass:x", "-in",
                                 shared_server().directory() / "client.key", "-out", key}));
    settings.tls.cert_file = shared_server().directory() / "client.pem";
    settings.tls.key_file = key;
    AmqpDriver driver(settings);
    ASSERT_TRUE(driver.serve_until_trouble("passphrase"));
    EXPECT_THAT(driver.ear().troubles.front().text, HasSubstr(key));
}

TEST(AmqpTls, ACertificateThatRabbitMqRefusesIsNamed)
{
    Scene scene;
    amqp::Settings settings = tls_settings(scene);
    const std::string dir = shared_server().directory() / unique_name("stranger");
    (void) run_or_throw(
        Command({"openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
                 "/CN=stranger", "-keyout", dir + ".key", "-out", dir + ".pem"}));
    settings.tls.cert_file = dir + ".pem";
    settings.tls.key_file = dir + ".key";
    AmqpDriver driver(settings);
    ASSERT_TRUE(driver.serve_until_trouble(dir + ".pem"));
    EXPECT_THAT(driver.ear().troubles.front().hint, HasSubstr("RabbitMQ's log"));
}

TEST(AmqpTls, UnknownAuthorityIsNotTrusted)
{
    Scene scene;
    amqp::Settings settings = tls_settings(scene);
    settings.tls.ca_file = shared_server().directory() / "client.pem";
    AmqpDriver driver(settings);
    ASSERT_TRUE(driver.serve_until_trouble("cannot connect with TLS"));
    EXPECT_THAT(driver.ear().troubles.front().text, HasSubstr(settings.tls.ca_file));
    EXPECT_THAT(driver.ear().troubles.front().hint, HasSubstr("ca_file"));
}

} // namespace

} // namespace outbox::test
