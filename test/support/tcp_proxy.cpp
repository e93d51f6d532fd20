#include "tcp_proxy.h"

#include <array>
#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "workspace.h"

namespace outbox::test
{

namespace
{

constexpr int kTurnMs = 5;
constexpr size_t kMaxChunks = 64; // of one direction; beyond it the sender has to wait

sockaddr_in
local_address(int port)
{
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    return address;
}

int
listen_on(int port)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int on = 1;
    const sockaddr_in address = local_address(port);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        bind(fd, reinterpret_cast<const sockaddr *>(&address), sizeof(address)) != 0 ||
        listen(fd, 64) != 0)
        throw std::system_error(errno, std::generic_category(), "cannot listen");
    return fd;
}

bool
would_block()
{
    return errno == EAGAIN || errno == EINTR;
}

} // namespace

TcpProxy::TcpProxy() : port_(free_port()), listener_(listen_on(port_))
{
    thread_ = std::thread([this] { serve(); });
}

TcpProxy::~TcpProxy()
{
    stopping_ = true;
    thread_.join();
    for (const Connection &connection : connections_)
        close_both(connection);
    close(listener_);
}

void
TcpProxy::set(Mode mode, Milliseconds delay)
{
    delay_ms_ = static_cast<int>(delay.count());
    mode_ = mode;
    const unsigned turn = turns_;
    (void) wait_until(std::chrono::seconds(10), [&] { return turns_ != turn; });
}

void
TcpProxy::cut_at(const std::string &text, int times)
{
    cut_at_ = text;
    cuts_left_ = times;
}

bool
TcpProxy::is_to_be_cut(const Direction &up)
{
    if (cuts_left_ == 0 || up.waiting.empty() ||
        up.waiting.back().bytes.find(cut_at_) == std::string::npos)
        return false;
    --cuts_left_;
    return true;
}

void
TcpProxy::close_both(const Connection &connection)
{
    close(connection.up.from);
    close(connection.up.to);
}

void
TcpProxy::accept_one()
{
    const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (client < 0)
        return;
    const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = local_address(target_);
    if (mode_ == Mode::kCut || server < 0 ||
        connect(server, reinterpret_cast<const sockaddr *>(&address), sizeof(address)) != 0)
    {
        close(client);
        if (server >= 0)
            close(server);
        return;
    }
    connections_.push_back({{client, server, {}}, {server, client, {}}});
}

// Returns false when the connection has ended.
bool
TcpProxy::receive(Direction &direction)
{
    if (direction.waiting.size() >= kMaxChunks)
        return true;
    std::array<char, 65536> buffer;
    const ssize_t got = recv(direction.from, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0)
        return would_block();
    if (got == 0)
        return false;
    direction.waiting.push_back({Clock::now() + Milliseconds(delay_ms_),
                                 std::string(buffer.data(), static_cast<size_t>(got)), 0});
    return true;
}

bool
TcpProxy::send_due(Direction &direction)
{
    while (!direction.waiting.empty() && direction.waiting.front().due <= Clock::now())
    {
        Chunk &chunk = direction.waiting.front();
        const ssize_t sent = send(direction.to, chunk.bytes.data() + chunk.sent,
                                  chunk.bytes.size() - chunk.sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0)
            return would_block();
        chunk.sent += static_cast<size_t>(sent);
        if (chunk.sent < chunk.bytes.size())
            return true;
        direction.waiting.pop_front();
    }
    return true;
}

void
TcpProxy::serve()
{
    while (!stopping_)
    {
        std::vector<pollfd> watched = {{listener_, POLLIN, 0}};
        ++turns_;
        const Mode mode = mode_;
        const bool moving = mode != Mode::kBlackHole;
        const bool answers = moving && mode != Mode::kNoAnswers;
        for (const Connection &connection : connections_)
        {
            if (moving)
                watched.push_back({connection.up.from, POLLIN, 0});
            if (answers)
                watched.push_back({connection.up.to, POLLIN, 0});
        }
        poll(watched.data(), watched.size(), kTurnMs);
        if ((watched[0].revents & POLLIN) != 0)
            accept_one();
        if (!moving)
            continue;
        const bool cut = mode == Mode::kCut;
        for (auto it = connections_.begin(); it != connections_.end();)
        {
            const bool alive = !cut && receive(it->up) && !is_to_be_cut(it->up) &&
                               send_due(it->up) &&
                               (!answers || (receive(it->down) && send_due(it->down)));
            if (!alive)
                close_both(*it);
            it = alive ? std::next(it) : connections_.erase(it);
        }
    }
}

} // namespace outbox::test
