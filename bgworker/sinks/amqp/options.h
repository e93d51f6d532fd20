// RabbitMQ as the sink of a subscription.
#pragma once

#include "extension/core/event_template.h"
#include "extension/core/sink_kinds.h"

namespace outbox::amqp
{

extern const SinkKind kSinkKind;

// What is in the options themselves; files are read by setup.h.
struct Options
{
    std::string uri_file;
    std::string host;
    std::int64_t port = 0;
    std::string vhost = "/";
    std::string username = "guest";
    std::string password_file;
    bool tls = false;
    std::string ca_file;
    std::string cert_file;
    std::string key_file;
    std::string exchange;
    std::string routing_key_text = "{aggregate_type}.{event_type}";
    EventTemplate routing_key; // compiled from it
    bool mandatory = true;
    std::int64_t heartbeat_ms = 10000;
    std::int64_t connect_timeout_ms = 10000;
    std::int64_t confirm_timeout_ms = 60000;
    std::int64_t max_unconfirmed = 1024;
};

// AMQP takes 255 bytes of any kind. May throw std::bad_alloc.
Verdict compile_routing_key(std::string_view text, EventTemplate &made);

// Returns false and says why when nothing can be made of them. May throw std::bad_alloc.
bool read_options(const SinkOptions &given, Options &options, OptionFault &fault);

} // namespace outbox::amqp
