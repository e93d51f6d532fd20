#include "rabbitmq_server.h"

#include <stdexcept>

#include "amqp_client.h"
#include "support/workspace.h"

namespace outbox::test
{

namespace
{

// Debian's wrappers of the same names change to the user of the machine's server.
const std::string kPrograms = "/usr/lib/rabbitmq/bin/";
constexpr std::chrono::seconds kStartLimit(120);

} // namespace

RabbitMqServer::RabbitMqServer(const std::string &config, bool tls)
    : port_(free_port()), tls_port_(free_port()), distribution_port_(free_port()),
      mapper_port_(free_port()), name_(unique_name("rabbit") + "@localhost"),
      directory_(run_dir() / unique_name("rabbitmq")), log_(new_log("rabbitmq"))
{
    if (!std::filesystem::exists(kPrograms + "rabbitmq-server"))
        throw std::runtime_error("there is no RabbitMQ; scripts/deps.sh check installs it");
    std::filesystem::create_directories(directory_);
    write_file(directory_ / "enabled_plugins", "[].\n");
    write_file(directory_ / "rabbitmq.conf",
               "loopback_users = none\nvm_memory_high_watermark.absolute = 2GB\n"
               "disk_free_limit.absolute = 10MB\n" +
                   config);
    if (tls)
        write_file(directory_ / "rabbitmq.conf",
                   read_file(directory_ / "rabbitmq.conf") + make_certificates());
    Command mapper({"epmd", "-port", std::to_string(mapper_port_), "-address", "127.0.0.1"});
    mapper.directory = directory_;
    mapper.output = log_;
    mapper_ = std::make_unique<Process>(mapper);
    start();
}

// Returns the lines that name them.
std::string
RabbitMqServer::make_certificates() const
{
    const std::string directory = directory_.string();
    const auto openssl = [&](std::vector<std::string> words)
    {
        words.insert(words.begin(), "openssl");
        Command command(words);
        command.directory = directory;
        (void) run_or_throw(command);
    };
    openssl({"req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test ca",
             "-keyout", "ca.key", "-out", "ca.pem"});
    write_file(directory_ / "names", "subjectAltName=DNS:localhost\n");
    for (const std::string name : {"server", "client"})
    {
        openssl({"req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-keyout",
                 name + ".key", "-out", name + ".csr"});
        openssl({"x509", "-req", "-in", name + ".csr", "-CA", "ca.pem", "-CAkey", "ca.key",
                 "-CAcreateserial", "-days", "2", "-extfile", "names", "-out", name + ".pem"});
    }
    return "listeners.ssl.1 = 127.0.0.1:" + std::to_string(tls_port_) +
           "\nssl_options.cacertfile = " + directory +
           "/ca.pem\nssl_options.certfile = " + directory +
           "/server.pem\nssl_options.keyfile = " + directory +
           "/server.key\nssl_options.verify = verify_peer\n"
           "ssl_options.fail_if_no_peer_cert = false\n";
}

std::map<std::string, std::string>
RabbitMqServer::environment() const
{
    const std::string directory = directory_.string();
    return {{"HOME", directory}, // of the cookie
            {"RABBITMQ_NODENAME", name_},
            {"RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1"},
            {"RABBITMQ_NODE_PORT", std::to_string(port_)},
            {"RABBITMQ_DIST_PORT", std::to_string(distribution_port_)},
            {"RABBITMQ_MNESIA_BASE", directory + "/data"},
            {"RABBITMQ_LOG_BASE", directory + "/log"},
            {"RABBITMQ_ENABLED_PLUGINS_FILE", directory + "/enabled_plugins"},
            {"RABBITMQ_CONFIG_FILE", directory + "/rabbitmq.conf"},
            {"RABBITMQ_CONF_ENV_FILE", "/dev/null"},
            {"RABBITMQ_GENERATED_CONFIG_DIR", directory + "/generated"},
            {"ERL_EPMD_PORT", std::to_string(mapper_port_)},
            {"ERL_EPMD_ADDRESS", "127.0.0.1"},
            // The process that is started is the server, not a shell that waits for it.
            {"RUNNING_UNDER_SYSTEMD", "true"},
            {"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
             "+S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none "
             "-kernel inet_dist_use_interface {127,0,0,1}"}};
}

Command
RabbitMqServer::command(const std::string &program) const
{
    Command made({kPrograms + program});
    made.environment = environment();
    made.directory = directory_;
    return made;
}

void
RabbitMqServer::start()
{
    if (server_ && server_->running())
        return server_->resume();
    Command wanted = command("rabbitmq-server");
    wanted.output = log_;
    server_ = std::make_unique<Process>(wanted);
    const auto answers = [&]
    {
        try
        {
            const AmqpClient client(port_);
            return true;
        }
        catch (const std::exception &)
        {
            return !server_->running();
        }
    };
    if (!wait_until(kStartLimit, answers) || !server_->running())
        throw std::runtime_error("RabbitMQ does not start, see " + log_);
}

std::string
RabbitMqServer::ctl(const std::vector<std::string> &words) const
{
    Command wanted = command("rabbitmqctl");
    wanted.argv.push_back("--quiet");
    wanted.argv.insert(wanted.argv.end(), words.begin(), words.end());
    return run_or_throw(wanted);
}

void
RabbitMqServer::close_connections(const std::string &reason) const
{
    ctl({"close_all_connections", reason});
}

} // namespace outbox::test
