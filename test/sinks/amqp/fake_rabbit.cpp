#include "fake_rabbit.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace outbox::test
{

namespace
{

constexpr int kConnection = 10;
constexpr int kChannel = 20;
constexpr int kExchange = 40;
constexpr int kBasic = 60;
constexpr int kConfirm = 85;

std::uint64_t
number_in(const std::string &bytes, std::size_t at, std::size_t count)
{
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < count && at + i < bytes.size(); i++)
        value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
    return value;
}

} // namespace

std::string
number(std::uint64_t value, int bytes)
{
    std::string text;
    for (int i = bytes - 1; i >= 0; i--)
        text += static_cast<char>(value >> (8 * i) & 0xFF);
    return text;
}

std::string
short_text(const std::string &text)
{
    return number(text.size(), 1) + text;
}

std::string
long_text(const std::string &text)
{
    return number(text.size(), 4) + text;
}

std::string
frame(int type, int channel, const std::string &payload)
{
    return number(static_cast<std::uint64_t>(type), 1) +
           number(static_cast<std::uint64_t>(channel), 2) + long_text(payload) + '\xCE';
}

std::string
method(int channel, int of_class, int id, const std::string &arguments)
{
    return frame(1, channel,
                 number(static_cast<std::uint64_t>(of_class), 2) +
                     number(static_cast<std::uint64_t>(id), 2) + arguments);
}

std::string
ack(std::uint64_t number_, bool multiple)
{
    return method(1, kBasic, 80, number(number_, 8) + number(multiple ? 1 : 0, 1));
}

std::string
nack(std::uint64_t number_, bool multiple)
{
    return method(1, kBasic, 120, number(number_, 8) + number(multiple ? 1 : 0, 1));
}

std::string
back(const std::string &id, const std::string &routing_key, const std::string &body,
     const std::string &text, const std::string &exchange)
{
    constexpr int kMessageId = 1 << 7;
    return method(1, kBasic, 50,
                  number(312, 2) + short_text(text) + short_text(exchange) +
                      short_text(routing_key)) +
           frame(2, 1,
                 number(kBasic, 2) + number(0, 2) + number(body.size(), 8) + number(kMessageId, 2) +
                     short_text(id)) +
           (body.empty() ? "" : frame(3, 1, body));
}

std::string
close_channel(int code, const std::string &text)
{
    return method(1, kChannel, 40,
                  number(static_cast<std::uint64_t>(code), 2) + short_text(text) + number(0, 4));
}

std::string
close_connection(int code, const std::string &text)
{
    return method(0, kConnection, 50,
                  number(static_cast<std::uint64_t>(code), 2) + short_text(text) + number(0, 4));
}

bool
Peer::say(const std::string &bytes) const
{
    for (std::size_t sent = 0; sent < bytes.size();)
    {
        const ssize_t now =
            send(client_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (now > 0)
        {
            sent += static_cast<std::size_t>(now);
            continue;
        }
        // A client that closes reads nothing more, and TCP asks it seldom whether it does.
        pollfd wanted = {client_, POLLOUT | POLLRDHUP, 0};
        if ((now < 0 && errno != EAGAIN) || ended_ || poll(&wanted, 1, 50) < 0 ||
            (wanted.revents & POLLRDHUP) != 0)
            return false;
    }
    return true;
}

bool
Peer::hear_bytes(std::string &bytes, std::size_t count) const
{
    bytes.resize(count);
    for (std::size_t heard = 0; heard < count;)
    {
        pollfd wanted = {client_, POLLIN, 0};
        if (ended_)
            return false;
        if (poll(&wanted, 1, 50) != 1)
            continue;
        const ssize_t now = recv(client_, bytes.data() + heard, count - heard, 0);
        if (now <= 0)
            return false;
        heard += static_cast<std::size_t>(now);
    }
    return true;
}

bool
Peer::hear(Frame &frame) const
{
    std::string begin;
    std::string end;
    if (!hear_bytes(begin, 7))
        return false;
    frame.type = static_cast<int>(number_in(begin, 0, 1));
    frame.channel = static_cast<int>(number_in(begin, 1, 2));
    return hear_bytes(frame.payload, number_in(begin, 3, 4)) && hear_bytes(end, 1);
}

bool
Peer::let_in(const std::function<void(int)> &between) const
{
    std::string greeting;
    if (!hear_bytes(greeting, 8))
        return false;
    const auto step = [&](int index)
    {
        if (between)
            between(index);
    };
    step(0);
    Frame heard;
    if (!say(method(0, kConnection, 10,
                    number(9, 2) + long_text("") + long_text("PLAIN") + long_text("en_US"))) ||
        !hear(heard))
        return false;
    step(1);
    if (!say(method(0, kConnection, 30, number(10, 2) + number(131072, 4) + number(1, 2))) ||
        !hear(heard) || !hear(heard))
        return false;
    step(2);
    if (!say(method(0, kConnection, 41, short_text(""))) || !hear(heard))
        return false;
    step(3);
    if (!say(method(1, kChannel, 11, long_text(""))) || !hear(heard))
        return false;
    step(4);
    if (heard.is(kExchange, 10) && (!say(method(1, kExchange, 11)) || !hear(heard)))
        return false;
    step(5);
    return say(method(1, kConfirm, 11));
}

bool
Peer::hear_message(std::string &id) const
{
    Frame heard;
    do
    {
        if (!hear(heard))
            return false;
    } while (!heard.is(kBasic, 40));
    if (!hear(heard))
        return false;
    // Content type is not set, headers are, then delivery mode, then the id.
    const std::string &header = heard.payload;
    const std::uint64_t size = number_in(header, 4, 8);
    const std::size_t table = 14;
    const std::size_t at = table + 4 + number_in(header, table, 4) + 1;
    id = header.substr(at + 1, number_in(header, at, 1));
    for (std::uint64_t left = size; left > 0; left -= heard.payload.size())
        if (!hear(heard))
            return false;
    return true;
}

FakeRabbit::FakeRabbit(std::function<void(const Peer &, int)> serve)
    : serve_(std::move(serve)), thread_(
                                    [this]
                                    {
                                        for (int client; (client = listener_.accept()) != -1;)
                                        {
                                            serve_(Peer(client, ended_), connections_++);
                                            (void) close(client);
                                        }
                                    })
{
}

FakeRabbit::~FakeRabbit()
{
    ended_ = true;
    listener_.end();
    thread_.join();
}

} // namespace outbox::test
