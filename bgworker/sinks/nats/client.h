// One connection to a NATS server. libnats reads and writes when its owner says so; what it has to
// tell comes in threads of its own.
#pragma once

#include "bgworker/engine/failure.h"
#include "bgworker/sinks/lifeline.h"

#include "extension/core/secrets.h"

#include "settings.h"

#include <cstdint>
#include <memory>
#include <string>

struct __natsConnection;
struct __natsSubscription;
struct __natsMsg;
struct __natsStatistics;

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
    ~Client();
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
    // Without waiting, when it may.
    void read() noexcept;
    // In how many milliseconds it may be read again; 0: now.
    int rest_ms() noexcept;
    // What was read last was asked for, with so many bytes in it.
    void note_answer(std::size_t size) noexcept;
    // Nobody had asked for it.
    void note_unasked() noexcept;
    void write() noexcept;
    int buffered() const noexcept;
    bool wants_to_write() const noexcept { return wants_to_write_; }
    int descriptor() const noexcept { return descriptor_; }

    long long max_payload() const noexcept;
    // It was sent more than a server has to say besides messages: libnats would keep all of that.
    bool is_flooded() const noexcept { return is_flooded_; }
    // Over TLS libnats waits for the end of what a server has begun, for ever.
    Lifeline &lifeline() noexcept { return lifeline_; }

    // Why there is no connection any more.
    void describe_end(Failure &why) const noexcept;
    // A text of the server's, who may repeat what it was sent to log in: without that. `was_cut`:
    // at its end there may be a part of it.
    void mask(char *text, bool was_cut) const noexcept;

    // Of the loop that libnats is told of.
    void attach(int descriptor) noexcept;
    void watch_writing(bool on) noexcept { wants_to_write_ = on; }
    // libnats does not use the descriptor any more.
    void stop_reading() noexcept;

private:
    bool set_options(void *options, Failure &why);
    bool check_tls_files(Failure &why) const;
    bool set_secrets(void *options, Failure &why);
    void keep_secrets(const Secrets &read);
    bool subscribe(Failure &why);
    void fail(Failure &why, int status, const char *text) const noexcept;
    void name_servers(Failure &why) const;

    void close_left() noexcept;
    void begin_count() noexcept;
    void expect_talk(const char *subject) noexcept;
    void count_said() noexcept;
    std::int64_t frame() const noexcept;
    bool has_undelivered() const noexcept;

    const Settings &settings_;
    const std::string inbox_;
    const std::uint64_t listener_;
    __natsConnection *connection_ = nullptr;
    __natsSubscription *subscription_ = nullptr;
    int descriptor_ = -1;
    int left_ = -1; // to us, to close
    bool wants_to_write_ = false;

    Lifeline lifeline_;
    // Those that were sent to the server, and those before.
    Secrets secrets_;
    Secrets older_secrets_;

    // What was read since it was counted last, and how much of it was in messages until then.
    std::int64_t said_bytes_ = 0;
    std::int64_t message_bytes_ = 0;
    __natsStatistics *statistics_ = nullptr;
    // How much the server may still say besides messages.
    std::int64_t talk_ = 0;
    std::int64_t talk_since_ = 0;
    // What was read since libnats had nothing to deliver.
    std::int64_t undelivered_bytes_ = 0;
    // How much may be read at once that nobody asked for.
    std::int64_t unasked_ = 0;
    std::int64_t unasked_since_ = 0;
    bool is_flooded_ = false;
};

} // namespace outbox::nats
