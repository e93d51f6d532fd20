// What a connection to RabbitMQ is made from.
#pragma once

#include "extension/core/event_template.h"

#include <cstddef>
#include <string>

namespace outbox::amqp
{

// AMQP's limit for names.
constexpr std::size_t kMaxName = 255;

struct Tls
{
    bool on = false;
    std::string ca_file; // whose certificates are trusted
    std::string cert_file;
    std::string key_file;

    bool operator==(const Tls &other) const
    {
        return on == other.on && ca_file == other.ca_file && cert_file == other.cert_file &&
               key_file == other.key_file;
    }
};

struct Settings
{
    std::string host = "localhost";
    int port = 0; // 0: the protocol's
    std::string vhost = "/";
    std::string username = "guest";
    std::string password;
    // The file that it was read from, if any; `password_uri`: it holds a URI.
    std::string password_path;
    bool password_uri = false;
    Tls tls;

    // What RabbitMQ's own views call the connection.
    std::string name = "outbox";

    std::string exchange;
    EventTemplate routing_key;
    std::string routing_key_text; // what it was compiled from
    // A message that no queue gets is refused.
    bool mandatory = true;

    int heartbeat_s = 10;
    int connect_timeout_ms = 10000;
    // What is not confirmed for so long is sent again, over a new connection.
    int confirm_timeout_ms = 60000;
    // So many messages are on their way to RabbitMQ without a confirm.
    std::size_t window = 1024;

    int backoff_initial_ms = 500;
    int backoff_max_ms = 60000;

    // The most that the caller will have outstanding.
    std::size_t max_messages = 100000;
    std::size_t max_bytes = std::size_t{64} * 1024 * 1024;

    // Whether both make the same connections.
    bool operator==(const Settings &other) const;
};

} // namespace outbox::amqp
