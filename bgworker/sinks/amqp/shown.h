// Failures of a connection, in words.
#pragma once

#include "bgworker/engine/failure.h"

#include <cstddef>
#include <string_view>

namespace outbox::amqp
{

// What a server said, without what would disturb a log or a terminal: anything but printable ASCII
// becomes a question mark.
struct Shown
{
    explicit Shown(std::string_view said) noexcept;
    char text[256];
};

// AMQP's name of a reply code, such as NOT_FOUND.
const char *name_of_reply(int code) noexcept;

// RabbitMQ closed a connection or a channel, or gave a message back. Others than retriable are up
// to the caller.
Failure failure_of_reply(int code, std::string_view said) noexcept;
// The library failed while it did something, such as "connecting".
Failure failure_of_library(int status, const char *doing) noexcept;

} // namespace outbox::amqp
