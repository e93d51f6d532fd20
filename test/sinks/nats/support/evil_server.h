// A NATS server that says what a test has it say.
#pragma once

#include "test/support/http_server.h"
#include "test/support/listener.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <openssl/ssl.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace outbox::test
{

constexpr char kHello[] =
    R"({"server_id":"X","version":"2.9.10","proto":1,"headers":true,"max_payload":1048576,"jetstream":true)";

// One end of a connection, with TLS or without.
class Peer
{
public:
    explicit Peer(int fd) : fd_(fd) {}
    ~Peer() { SSL_free(tls_); }
    Peer(const Peer &) = delete;
    Peer &operator=(const Peer &) = delete;

    bool secure(SSL_CTX *context)
    {
        tls_ = SSL_new(context);
        return SSL_set_fd(tls_, fd_) == 1 && SSL_accept(tls_) == 1;
    }
    bool send_raw(const std::string &bytes) const
    {
        return ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
               static_cast<ssize_t>(bytes.size());
    }
    bool send(const std::string &bytes)
    {
        return tls_ == nullptr ? send_raw(bytes)
                               : SSL_write(tls_, bytes.data(), static_cast<int>(bytes.size())) > 0;
    }
    // A message of TLS itself, of which nothing reaches who reads.
    bool send_new_key()
    {
        return SSL_key_update(tls_, SSL_KEY_UPDATE_NOT_REQUESTED) == 1 &&
               SSL_do_handshake(tls_) == 1;
    }
    // Without what ends it; empty: there is none any more.
    std::string line()
    {
        std::size_t end = 0;
        while ((end = heard_.find("\r\n")) == std::string::npos)
            if (!receive())
                return "";
        const std::string line = heard_.substr(0, end);
        heard_.erase(0, end + 2);
        return line;
    }
    bool skip(std::size_t size)
    {
        while (heard_.size() < size)
            if (!receive())
                return false;
        heard_.erase(0, size);
        return true;
    }
    // Until the other side has gone.
    void wait_for_end()
    {
        char buffer[4096];
        while (::recv(fd_, buffer, sizeof buffer, 0) > 0)
            continue;
    }

private:
    bool receive()
    {
        char buffer[65536];
        const auto size = tls_ == nullptr ? ::recv(fd_, buffer, sizeof buffer, 0)
                                          : SSL_read(tls_, buffer, sizeof buffer);
        heard_.append(buffer, size > 0 ? static_cast<std::size_t>(size) : 0);
        return size > 0;
    }

    const int fd_;
    SSL *tls_ = nullptr;
    std::string heard_;
};

// One connection at a time; each is another one's affair.
class EvilServer
{
public:
    using Serve = std::function<void(Peer &, SSL_CTX *, int number)>;

    explicit EvilServer(Serve serve)
        : serve_(std::move(serve)), context_(SSL_CTX_new(TLS_server_method()))
    {
        SSL_CTX_use_certificate_chain_file(context_, tls_files().server_cert.c_str());
        SSL_CTX_use_PrivateKey_file(context_, tls_files().server_key.c_str(), SSL_FILETYPE_PEM);
        thread_ = std::thread([this] { run(); });
    }
    ~EvilServer()
    {
        ended_ = true;
        listener_.end();
        thread_.join();
        SSL_CTX_free(context_);
    }

    std::string url() const { return "nats://127.0.0.1:" + std::to_string(listener_.port()); }
    int connections() const { return connections_; }

private:
    void run()
    {
        while (!ended_)
        {
            const int client = listener_.accept();
            if (client < 0)
                continue;
            const timeval limit = {10, 0};
            (void) setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
            (void) setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
            Peer peer(client);
            serve_(peer, context_, ++connections_);
            (void) ::close(client);
        }
    }

    const Serve serve_;
    SSL_CTX *context_;
    const Listener listener_;
    std::atomic<bool> ended_{false};
    std::atomic<int> connections_{0};
    std::thread thread_;
};

// Up to the PONG; empty: it has not come so far. What is subscribed to otherwise.
inline std::string
greet(Peer &peer, SSL_CTX *tls)
{
    if (!peer.send_raw(std::string("INFO ") + kHello +
                       (tls != nullptr ? R"(,"tls_required":true})" : "}") + "\r\n") ||
        (tls != nullptr && !peer.secure(tls)))
        return "";
    for (std::string line = peer.line(); !line.empty(); line = peer.line())
    {
        if (line == "PING" && !peer.send("PONG\r\n"))
            return "";
        if (line.rfind("SUB ", 0) == 0)
            return line.substr(4, line.find(' ', 4) - 4);
    }
    return "";
}

inline void
acknowledge_all(Peer &peer, const std::string &body = R"({"stream":"S","seq":1})")
{
    for (std::string line = peer.line(); !line.empty(); line = peer.line())
    {
        if (line == "PING" && !peer.send("PONG\r\n"))
            return;
        if (line.rfind("HPUB ", 0) != 0)
            continue;
        const std::size_t space = line.find(' ', 5) + 1;
        const std::string reply = line.substr(space, line.find(' ', space) - space);
        if (!peer.skip(std::stoul(line.substr(line.rfind(' '))) + 2) ||
            !peer.send("MSG " + reply + " 1 " + std::to_string(body.size()) + "\r\n" + body +
                       "\r\n"))
            return;
    }
}

// What answers to the sink are sent to, up to the last dot; empty: it has not come so far.
inline std::string
inbox_of(Peer &peer)
{
    const std::string subscribed = greet(peer, nullptr);
    return subscribed.substr(0, subscribed.size() -
                                    std::min<std::size_t>(subscribed.size(), 2)); // ".*"
}

} // namespace outbox::test
