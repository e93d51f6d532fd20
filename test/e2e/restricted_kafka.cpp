#include "restricted_kafka.h"

#include "support/process.h"
#include "support/workspace.h"

namespace fs = std::filesystem;

namespace outbox::test
{

namespace
{

std::string
address(int port)
{
    return "127.0.0.1:" + std::to_string(port);
}

void
openssl(const fs::path &directory, std::vector<std::string> arguments)
{
    arguments.insert(arguments.begin(), "openssl");
    Command command(arguments);
    command.directory = directory.string();
    run_or_throw(command);
}

void
make_authority(const fs::path &directory, const std::string &name)
{
    openssl(directory, {"req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
                        "/CN=" + name, "-keyout", name + ".key", "-out", name + ".pem"});
}

// A directory with two authorities and a certificate for 127.0.0.1 by the first.
fs::path
make_certificates()
{
    fs::path directory = run_dir() / unique_name("certificates-");
    fs::create_directory(directory);
    make_authority(directory, "authority");
    make_authority(directory, "stranger");
    openssl(directory, {"req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=broker", "-keyout",
                        "broker.key", "-out", "broker.csr"});
    write_file(directory / "names", "subjectAltName=IP:127.0.0.1\n");
    openssl(directory,
            {"x509", "-req", "-in", "broker.csr", "-CA", "authority.pem", "-CAkey", "authority.key",
             "-CAcreateserial", "-days", "2", "-extfile", "names", "-out", "broker.pem"});
    write_file(directory / "keystore.pem",
               read_file(directory / "broker.key") + read_file(directory / "broker.pem"));
    give_to_server_user(directory);
    give_to_server_user(directory / "authority.pem");
    give_to_server_user(directory / "stranger.pem");
    return directory;
}

std::map<std::string, std::string>
restrictions(const fs::path &directory, int password_port, int tls_port)
{
    const std::string plain = "org.apache.kafka.common.security.plain.PlainLoginModule";
    const std::string scram = "org.apache.kafka.common.security.scram.ScramLoginModule";
    return {
        {"auto.create.topics.enable", "false"},
        {"listeners", "PASSWORD://" + address(password_port) + ",TLS://" + address(tls_port)},
        {"listener.security.protocol.map",
         "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PASSWORD:SASL_PLAINTEXT,TLS:SSL"},
        {"sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-256"},
        {"listener.name.password.plain.sasl.jaas.config", plain + " required user_" +
                                                              RestrictedKafka::kUser + "=\"" +
                                                              RestrictedKafka::kPassword + "\";"},
        {"listener.name.password.scram-sha-256.sasl.jaas.config", scram + " required;"},
        {"listener.name.tls.ssl.keystore.type", "PEM"},
        {"listener.name.tls.ssl.keystore.location", (directory / "keystore.pem").string()},
        {"authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"},
        {"super.users", "User:ANONYMOUS"},
    };
}

// librdkafka 2.0 cannot store SCRAM credentials, Kafka's own tool can.
void
add_scram_user(const std::string &bootstrap)
{
    run_or_throw(Command(kafka_command(
        {"kafka.admin.ConfigCommand", "--bootstrap-server", bootstrap, "--alter", "--add-config",
         std::string("SCRAM-SHA-256=[password=") + RestrictedKafka::kScramPassword + "]",
         "--entity-type", "users", "--entity-name", RestrictedKafka::kUser})));
}

} // namespace

RestrictedKafka::RestrictedKafka()
    : directory_(make_certificates()), password_port_(free_port()), tls_port_(free_port()),
      kafka_(1, restrictions(directory_, password_port_, tls_port_))
{
    kafka_.start();
    add_scram_user(kafka_.bootstrap());
}

RestrictedKafka &
RestrictedKafka::instance()
{
    static RestrictedKafka the_instance;
    return the_instance;
}

std::string
RestrictedKafka::password_bootstrap() const
{
    return address(password_port_);
}

std::string
RestrictedKafka::tls_bootstrap() const
{
    return address(tls_port_);
}

std::string
RestrictedKafka::write_properties(const std::string &text) const
{
    const fs::path file = directory_ / unique_name("kafka-properties-");
    write_file(file, text);
    give_to_server_user(file);
    return file.string();
}

} // namespace outbox::test
