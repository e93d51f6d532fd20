// amqp://user:password@host:port/vhost
#pragma once

#include <string>
#include <string_view>

namespace outbox::amqp
{

struct Uri
{
    bool tls = false;
    std::string host;
    int port = 0; // 0: not given
    std::string vhost = "/";
    std::string username = "guest";
    std::string password = "guest";
};

// Reads a URI as RabbitMQ's clients do. Returns nullptr, or what is wrong with it, to complete a
// sentence about it, which quotes nothing of it. May throw std::bad_alloc.
const char *read_uri(std::string_view text, Uri &uri);

} // namespace outbox::amqp
