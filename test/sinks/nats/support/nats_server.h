// A NATS server with JetStream that a test owns, and what it holds.
#pragma once

#include "test/support/process.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace outbox::test
{

struct NatsMessage
{
    std::uint64_t sequence = 0;
    std::string subject;
    std::string value;
    std::map<std::string, std::string> headers;
};

struct NatsStream
{
    std::string name = {};
    std::vector<std::string> subjects = {};
    std::int64_t max_messages = -1;
    std::int32_t max_message_size = -1;
    bool discard_new = false;
    std::int64_t duplicates_ns = 0; // the server's default
};

class NatsServer
{
public:
    // `config`: further lines of its configuration. `jetstream`: whether it has it.
    explicit NatsServer(std::string config = "", bool jetstream = true);
    ~NatsServer();

    // nats://127.0.0.1:port; the same over stop() and start(), known before the first start().
    std::string url() const;
    int port() const { return port_; }
    const std::filesystem::path &directory() const { return directory_; }

    // Waits until it answers. What it stored is there again.
    void start();
    void stop();
    void kill9();
    // Takes another configuration, at once when it runs.
    void configure(const std::string &config, bool jetstream = true);
    Process &process() { return *process_; }

    void add_stream(const NatsStream &stream);
    // Another limit of messages.
    void change_stream(const NatsStream &stream);
    void delete_stream(const std::string &name);
    void purge_stream(const std::string &name);
    std::uint64_t count(const std::string &stream);
    // In the order of the stream.
    std::vector<NatsMessage> messages(const std::string &stream);
    // Who may do everything, when the configuration has users.
    void set_user(const std::string &user, const std::string &password);

private:
    void write_config();

    int port_;
    std::filesystem::path directory_;
    std::filesystem::path log_;
    std::string config_;
    bool jetstream_;
    std::string user_;
    std::string password_;
    std::unique_ptr<Process> process_;
};

} // namespace outbox::test
