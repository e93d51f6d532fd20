// A connection to RabbitMQ with one channel that confirms what it is sent. Used by one thread.
#pragma once

#include "message.h"
#include "settings.h"

#include "bgworker/engine/failure.h"
#include "bgworker/sinks/lifeline.h"
#include "extension/core/secrets.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct amqp_connection_state_t_;
struct amqp_frame_t_;
struct amqp_table_entry_t_;

namespace outbox::amqp
{

// Hears what RabbitMQ says by itself.
class Ears
{
public:
    virtual ~Ears() = default;
    virtual bool confirmed(std::uint64_t number, bool multiple, bool taken) = 0;
    // No queue gets the message. False, as above: RabbitMQ cannot mean what it says.
    virtual bool returned(std::string_view id, std::string_view routing_key,
                          const Failure &why) = 0;
    // Low on memory or disk, it reads nothing more; or it does again.
    virtual void blocked(std::string_view reason) = 0;
    virtual void unblocked() = 0;
};

// Why a connection has to go.
struct End
{
    Failure why;
    // RabbitMQ has closed it, or the channel, with these words; else it has said nothing.
    bool by_server = false;
    std::string said;
};

class Connection
{
public:
    // Connects, logs in and opens the channel; waits as long as the settings say. Gives up when
    // `stop_fd` becomes readable, as far as it can. Null and the reason. May throw std::bad_alloc.
    // The lifeline must last as long as it.
    static std::unique_ptr<Connection> open(const Settings &settings, int stop_fd,
                                            Lifeline &lifeline, Failure &why);
    ~Connection();
    Connection(const Connection &) = delete;
    Connection &operator=(const Connection &) = delete;

    int fd() const noexcept;

    enum class Sent : unsigned char
    {
        all,
        part,    // RabbitMQ takes no more just now: call again with the same message
        refused, // `why` says what is wrong with it; nothing was sent
        broken   // the connection has to go
    };
    // Never waits. May throw std::bad_alloc, with nothing sent.
    Sent publish(const Message &message, Failure &why);
    // Whether a message is half sent.
    bool is_in_message() const noexcept { return in_message_; }

    enum class Heard : unsigned char
    {
        all,
        more, // call again
        end
    };
    // Hands what has arrived to `ears`, and sends heartbeats: to be called once a second at least.
    // Never waits. What `ears` throws is passed on.
    Heard listen(Ears &ears, End &end);

    // Says good-bye, if RabbitMQ listens; waits at most so long for its answer.
    void part(int timeout_ms) noexcept;

private:
    struct Closer
    {
        void operator()(amqp_connection_state_t_ *state) const noexcept;
    };

    Connection(const Settings &settings, Lifeline &lifeline);
    bool connect(int stop_fd, Failure &why);
    bool connect_tls(Failure &why);
    bool log_in(Failure &why);
    void name_certificate(Failure &why) const;
    bool open_channel(Failure &why);
    bool send(int channel, std::uint32_t id, void *method, const char *doing, Failure &why);
    bool await(int channel, std::uint32_t id, const char *doing, amqp_frame_t_ &frame,
               Failure &why);
    bool ask(int channel, std::uint32_t id, void *method, std::uint32_t answer, const char *doing,
             Failure &why);
    bool start(Failure &why);
    bool tune(Failure &why);
    void size_chunks() noexcept;
    bool may_write(std::size_t bytes) noexcept;
    Sent publish_small(const Message &message, Failure &why);
    Sent publish_begin(const Message &message, Failure &why);
    Sent publish_body(const Message &message, Failure &why);
    Sent sent(int status, Failure &why) noexcept;
    void fill_headers(const Message &message);
    std::string masked(std::string_view said) const;
    Failure failure_of_close(int code, std::string_view said) const;
    void expect_frames(const Message &message) noexcept;
    bool may_say_more() noexcept;
    bool hear(const amqp_frame_t_ &frame, Ears &ears, End &end);
    bool hear_of_connection(const amqp_frame_t_ &frame, Ears &ears, End &end);
    bool hear_of_channel(const amqp_frame_t_ &frame, Ears &ears, End &end);
    bool hear_header(const amqp_frame_t_ &frame, Ears &ears);
    bool hear_body(const amqp_frame_t_ &frame) noexcept;

    const Settings &settings_;
    Lifeline &lifeline_;
    std::unique_ptr<amqp_connection_state_t_, Closer> state_;
    std::int64_t log_in_until_ = 0; // by steady_now()
    std::size_t frame_max_ = 0;
    // Writes of so many bytes do not wait when the socket has room at all.
    std::size_t chunk_ = 0;
    std::size_t budget_ = 0; // what is left of it since the socket was asked
    std::vector<amqp_table_entry_t_> headers_;

    Secrets secrets_; // that it was sent, and may repeat

    // How many frames RabbitMQ may still send.
    std::int64_t frames_ = 0;
    std::int64_t frames_since_ = 0;

    bool in_message_ = false;
    std::size_t sent_of_body_ = 0;

    // A message that comes back, of which not all was heard.
    bool in_return_ = false;
    bool in_return_body_ = false;
    std::uint64_t left_of_return_ = 0;
    std::string returned_key_;
    Failure returned_why_;
    bool closed_ = false;
};

} // namespace outbox::amqp
