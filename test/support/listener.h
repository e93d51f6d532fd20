// A socket that takes connections on a port of 127.0.0.1, for servers of tests.
#pragma once

#include <cerrno>
#include <system_error>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace outbox::test
{

// Whoever connects waits until somebody accepts.
class Listener
{
public:
    // Port 0 stands for any that is free.
    explicit Listener(int port = 0) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))
    {
        sockaddr_in address = {};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address.sin_port = htons(static_cast<uint16_t>(port));
        const int on = 1;
        (void) setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        socklen_t size = sizeof address;
        auto *any = reinterpret_cast<sockaddr *>(&address);
        if (bind(socket_, any, size) != 0 || listen(socket_, 64) != 0 ||
            getsockname(socket_, any, &size) != 0)
            throw std::system_error(errno, std::generic_category(), "cannot listen");
        port_ = ntohs(address.sin_port);
    }
    ~Listener() { (void) close(socket_); }
    Listener(const Listener &) = delete;
    Listener &operator=(const Listener &) = delete;

    int port() const { return port_; }
    int fd() const { return socket_; }
    // The next connection; -1 after end().
    int accept() const { return ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC); }
    void end() const { (void) shutdown(socket_, SHUT_RDWR); }

private:
    int socket_;
    int port_ = 0;
};

} // namespace outbox::test
