// A server that speaks AMQP as no RabbitMQ should.
#pragma once

#include "support/listener.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace outbox::test
{

// Numbers and strings as AMQP writes them.
std::string number(std::uint64_t value, int bytes);
std::string short_text(const std::string &text);
std::string long_text(const std::string &text);
// A frame, and a method in one.
std::string frame(int type, int channel, const std::string &payload);
std::string method(int channel, int of_class, int id, const std::string &arguments = "");

std::string ack(std::uint64_t number_, bool multiple = false);
std::string nack(std::uint64_t number_, bool multiple = false);
// The message with this id comes back.
std::string back(const std::string &id, const std::string &routing_key,
                 const std::string &body = "", const std::string &text = "NO_ROUTE",
                 const std::string &exchange = "x");
std::string close_channel(int code, const std::string &text);
std::string close_connection(int code, const std::string &text);

struct Frame
{
    int type = 0;
    int channel = 0;
    std::string payload;

    bool is(int of_class, int id) const
    {
        return type == 1 &&
               payload.substr(0, 4) == number(static_cast<std::uint64_t>(of_class), 2) +
                                           number(static_cast<std::uint64_t>(id), 2);
    }
};

// One connection.
class Peer
{
public:
    explicit Peer(int client, const std::atomic<bool> &ended) : client_(client), ended_(ended) {}

    bool say(const std::string &bytes) const;
    // False when the client is gone, or at the end.
    bool hear(Frame &frame) const;
    bool hear_bytes(std::string &bytes, std::size_t count) const;
    // Lets it in, up to the confirmed channel; `between` may say something before each answer.
    bool let_in(const std::function<void(int step)> &between = nullptr) const;
    // The next whole message: its id.
    bool hear_message(std::string &id) const;

private:
    int client_;
    const std::atomic<bool> &ended_;
};

// Serves one client after the other; `serve` gets the number of the connection.
class FakeRabbit
{
public:
    explicit FakeRabbit(std::function<void(const Peer &, int)> serve);
    ~FakeRabbit();
    FakeRabbit(const FakeRabbit &) = delete;
    FakeRabbit &operator=(const FakeRabbit &) = delete;

    int port() const { return listener_.port(); }
    int connections() const { return connections_; }

private:
    const std::function<void(const Peer &, int)> serve_;
    std::atomic<bool> ended_{false};
    std::atomic<int> connections_{0};
    const Listener listener_;
    std::thread thread_;
};

} // namespace outbox::test
