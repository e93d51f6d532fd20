#include "tcp.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace outbox::amqp
{

namespace
{

using Steady = std::chrono::steady_clock;

int
ms_until(Steady::time_point deadline) noexcept
{
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Steady::now()).count();
    return left > 0 ? static_cast<int>(left) : 0;
}

// Returns 0, or an error number.
int
finish(int fd, Steady::time_point deadline, int stop_fd) noexcept
{
    pollfd wanted[] = {{fd, POLLOUT, 0}, {stop_fd, POLLIN, 0}};
    int ready = 0;
    while ((ready = poll(wanted, 2, ms_until(deadline))) == -1 && errno == EINTR)
        ;
    if (ready == 0)
        return ETIMEDOUT;
    if (ready == -1)
        return errno;
    if (wanted[1].revents != 0)
        return ECANCELED;
    int error = 0;
    socklen_t size = sizeof error;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

int
connect_to(const addrinfo &address, Steady::time_point deadline, int stop_fd, int &error) noexcept
{
    const int fd = socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd == -1)
    {
        error = errno;
        return -1;
    }
    error = 0;
    if (connect(fd, address.ai_addr, address.ai_addrlen) != 0)
        error = errno == EINPROGRESS ? finish(fd, deadline, stop_fd) : errno;
    if (error == 0)
    {
        const int on = 1; // as librabbitmq does; without it all works, but later
        (void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        return fd;
    }
    (void) close(fd);
    return -1;
}

} // namespace

int
connect_tcp(const std::string &host, int port, int timeout_ms, int stop_fd, std::string &why)
{
    const Steady::time_point deadline = Steady::now() + std::chrono::milliseconds(timeout_ms);
    addrinfo hints = {};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo *found = nullptr;
    const int status = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
    if (status != 0)
    {
        why = gai_strerror(status);
        return -1;
    }
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, &freeaddrinfo);
    int error = ETIMEDOUT;
    for (const addrinfo *address = found; address != nullptr; address = address->ai_next)
    {
        const int fd = connect_to(*address, deadline, stop_fd, error);
        if (fd != -1)
            return fd;
        if (error == ECANCELED || ms_until(deadline) == 0)
            break;
    }
    char text[128];
    why = strerror_r(error, text, sizeof text);
    return -1;
}

} // namespace outbox::amqp
