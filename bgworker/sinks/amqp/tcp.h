// A TCP connection that is made without waiting longer than allowed.
#pragma once

#include <string>

namespace outbox::amqp
{

// Returns a socket, or -1 and the reason in words. Waits until the deadline, or until `stop_fd` is
// readable; but a name service takes the time that it takes. May throw std::bad_alloc.
int connect_tcp(const std::string &host, int port, int timeout_ms, int stop_fd, std::string &why);

} // namespace outbox::amqp
