#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "support/process.h"

namespace outbox::test
{

// RabbitMQ 3 may find no route through a topic exchange after a crash, though it lists its bindings
// (rabbitmq-server's issues 2079, 4236 and 5075). Tests that end it by force have an exchange of
// this type, and declare what they use again afterwards, as RabbitMQ's clients do when they
// connect: a queue that was slow to recover may be without its bindings (its issues 1873 and 8994).
inline const std::string kOutlivesCrashes = "fanout";

// A RabbitMQ of Debian's package rabbitmq-server, with a directory, ports and a port mapper of its
// own; nothing of it listens elsewhere than on 127.0.0.1. Its user guest has every right.
class RabbitMqServer
{
public:
    // Further lines of rabbitmq.conf. Starts the server. With TLS it listens on tls_port() too,
    // with a certificate for localhost that ca.pem in its directory has signed; so is client.pem,
    // whose key is in client.key.
    explicit RabbitMqServer(const std::string &config = "", bool tls = false);
    ~RabbitMqServer() = default;
    RabbitMqServer(const RabbitMqServer &) = delete;
    RabbitMqServer &operator=(const RabbitMqServer &) = delete;

    int port() const { return port_; }
    int tls_port() const { return tls_port_; }
    const std::filesystem::path &directory() const { return directory_; }
    const std::string &log() const { return log_; }

    // Unless it runs. What it has stored is there afterwards.
    void start();
    void kill9() { server_->kill9(); }
    void pause() { server_->pause(); }
    void resume() { server_->resume(); }
    // Runs rabbitmqctl, which takes a second or two; returns what it says.
    std::string ctl(const std::vector<std::string> &words) const;
    // The same by an expression of Erlang.
    std::string eval(const std::string &expression) const { return ctl({"eval", expression}); }
    // Closes all connections that are there, as an operator.
    void close_connections(const std::string &reason) const;

private:
    std::string make_certificates() const;
    std::map<std::string, std::string> environment() const;
    Command command(const std::string &program) const;

    const int port_;
    const int tls_port_;
    const int distribution_port_;
    const int mapper_port_;
    const std::string name_;
    const std::filesystem::path directory_;
    const std::string log_;
    std::unique_ptr<Process> mapper_;
    std::unique_ptr<Process> server_;
};

} // namespace outbox::test
