// One connection to a NATS server. libnats reads and writes when its owner says so; what it has to
// tell comes in threads of its own.
#pragma once

#include "bgworker/engine/failure.h"

#include "settings.h"

#include <cstdint>
#include <memory>
#include <string>

struct __natsConnection;
struct __natsSubscription;
struct __natsMsg;

namespace outbox::nats
{

// Hears what comes over a connection, in a thread of libnats's. May be called until release().
class Listener
{
public:
    virtual ~Listener() = default;
    // Owns the message from here on.
    virtual void answered(__natsMsg *message) noexcept = 0;
    // The server's words.
    virtual void not_permitted(const char *text) noexcept = 0;
};

// Gives a listener a number, by which libnats's threads find it. After release() none of them is in
// it, nor gets there. May throw std::bad_alloc.
std::uint64_t announce(Listener &listener);
void release(std::uint64_t listener) noexcept;

class Client
{
public:
    enum class Published : unsigned char
    {
        done,
        too_large,
        lost, // the connection
        no_memory
    };

    Client(const Settings &settings, std::string inbox, std::uint64_t listener);
    ~Client() { disconnect(); }
    Client(const Client &) = delete;
    Client &operator=(const Client &) = delete;

    // Waits for each server for the time of the settings, and for name look-ups. May throw
    // std::bad_alloc.
    bool connect(Failure &why);
    void disconnect() noexcept;
    bool is_connected() const noexcept;
    // It was connected, until the connection ended.
    bool is_closed() const noexcept { return connection_ != nullptr && !is_connected(); }

    // Only puts it into a buffer, which write() empties.
    Published publish(__natsMsg *message) noexcept;
    // A question, without a payload.
    void ask(const char *subject, const char *reply) noexcept;
    // Without waiting.
    void read() noexcept;
    void write() noexcept;
    int buffered() const noexcept;
    bool wants_to_write() const noexcept { return wants_to_write_; }
    int descriptor() const noexcept { return descriptor_; }

    long long max_payload() const noexcept;
    // Why there is no connection any more.
    void describe_end(Failure &why) const noexcept;

    // Of the loop that libnats is told of.
    void attach(int descriptor) noexcept { descriptor_ = descriptor; }
    void watch_writing(bool on) noexcept { wants_to_write_ = on; }

private:
    bool set_options(void *options, Failure &why);
    bool set_secrets(void *options, Failure &why);
    bool subscribe(Failure &why);
    void fail(Failure &why, int status, const char *text) const noexcept;

    const Settings &settings_;
    const std::string inbox_;
    const std::uint64_t listener_;
    __natsConnection *connection_ = nullptr;
    __natsSubscription *subscription_ = nullptr;
    int descriptor_ = -1;
    bool wants_to_write_ = false;
};

} // namespace outbox::nats
