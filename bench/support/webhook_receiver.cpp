#include "webhook_receiver.h"

#include <cstdlib>

#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>

namespace outbox::bench
{

namespace
{

constexpr const char *kAnswer = "HTTP/1.1 204 No Content\r\n\r\n";

std::string
header_of(const std::string &bytes, const std::string &name, size_t end)
{
    const size_t at = bytes.find("\r\n" + name + ": ");
    if (at == std::string::npos || at > end)
        return "";
    const size_t begin = at + name.size() + 4;
    return bytes.substr(begin, bytes.find("\r\n", begin) - begin);
}

void
watch(int epoll, int fd)
{
    epoll_event event = {};
    event.events = EPOLLIN;
    event.data.fd = fd;
    (void) epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

} // namespace

WebhookReceiver::WebhookReceiver() : epoll_(epoll_create1(EPOLL_CLOEXEC))
{
    watch(epoll_, listener_.fd());
    thread_ = std::thread([this] { run(); });
}

WebhookReceiver::~WebhookReceiver()
{
    ended_ = true;
    thread_.join();
    (void) close(epoll_);
}

void
WebhookReceiver::reset()
{
    const std::lock_guard<std::mutex> lock(mutex_);
    arrivals_.clear();
    count_ = 0;
}

WebhookReceiver::Time
WebhookReceiver::first() const
{
    const std::lock_guard<std::mutex> lock(mutex_);
    return first_;
}

WebhookReceiver::Time
WebhookReceiver::last() const
{
    const std::lock_guard<std::mutex> lock(mutex_);
    return last_;
}

std::unordered_map<std::string, WebhookReceiver::Time>
WebhookReceiver::arrivals() const
{
    const std::lock_guard<std::mutex> lock(mutex_);
    return arrivals_;
}

// False: the client has gone.
bool
WebhookReceiver::receive(int client, std::string &bytes)
{
    char buffer[16384];
    const ssize_t got = recv(client, buffer, sizeof buffer, 0);
    if (got <= 0)
        return got < 0 && errno == EAGAIN;
    bytes.append(buffer, static_cast<size_t>(got));
    for (;;)
    {
        const size_t end = bytes.find("\r\n\r\n");
        if (end == std::string::npos)
            return true;
        std::string length = header_of(bytes, "Content-Length", end);
        if (length.empty())
            length = header_of(bytes, "content-length", end);
        const size_t size = end + 4 + std::strtoul(length.c_str(), nullptr, 10);
        if (bytes.size() < size)
            return true;
        const Time now = std::chrono::steady_clock::now();
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            if (count_++ == 0)
                first_ = now;
            last_ = now;
            arrivals_[header_of(bytes, "outbox-aggregate-id", end)] = now;
        }
        bytes.erase(0, size);
        (void) send(client, kAnswer, 27, MSG_NOSIGNAL);
    }
}

void
WebhookReceiver::run()
{
    std::unordered_map<int, std::string> clients;
    epoll_event events[64];
    while (!ended_)
    {
        const int count = epoll_wait(epoll_, events, 64, 50);
        for (int i = 0; i < count; i++)
        {
            const int fd = events[i].data.fd;
            if (fd == listener_.fd())
            {
                const int client = listener_.accept();
                const int on = 1;
                (void) setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                (void) fcntl(client, F_SETFL, O_NONBLOCK);
                watch(epoll_, client);
                clients[client];
            }
            else if (!receive(fd, clients[fd]))
            {
                clients.erase(fd);
                (void) close(fd);
            }
        }
    }
    for (const auto &[client, bytes] : clients)
        (void) close(client);
}

} // namespace outbox::bench
