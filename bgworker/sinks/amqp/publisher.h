// RabbitMQ as a destination, for a single-threaded caller that must not wait.
#pragma once

#include "bgworker/engine/sink.h"

#include "lanes.h"
#include "mailbox.h"
#include "sender.h"

#include <memory>
#include <pthread.h>

namespace outbox::amqp
{

// A connection, with its thread, is alive as long as the one or the other needs it.
struct Session
{
    Session(const Settings &with, int wake_fd)
        : settings(with), mailbox(wake_fd), sender(settings, mailbox)
    {
    }

    const Settings settings;
    Mailbox mailbox;
    Sender sender;
};

// One message of a lane is under way, many lanes at once.
class Publisher final : public KeyedSink
{
public:
    // Returns a publisher that connects in the background, or null and the reason. It adds to
    // `wake_fd`, a non-blocking eventfd of the caller's (or -1), whenever serve() has work to do.
    static std::unique_ptr<Publisher> create(const Settings &settings, int wake_fd,
                                             Failure &why) noexcept;
    // Closes with a time limit.
    ~Publisher() override;
    Publisher(const Publisher &) = delete;
    Publisher &operator=(const Publisher &) = delete;

    ProduceResult produce(const Record &record, Failure &why) noexcept override;
    // Nothing waits for fuller batches.
    void send_now() noexcept override {}
    std::size_t serve(SinkListener &listener, std::size_t max_events) noexcept override;
    // The thread cannot say that it is held up.
    int serve_within_ms() const noexcept override
    {
        return outstanding_ > 0 || session_->mailbox.is_listening_long() ? kLookMs : -1;
    }
    std::size_t outstanding() const noexcept override { return outstanding_; }
    void purge() noexcept override;
    bool fatal(Failure &why) const noexcept override;
    bool close(int timeout_ms) noexcept override;
    bool reachable(int timeout_ms) noexcept override;

private:
    static constexpr int kLookMs = 1000;

    explicit Publisher(std::shared_ptr<Session> session) noexcept : session_(std::move(session)) {}
    bool start(Failure &why) noexcept;
    bool has_room(std::size_t bytes) const noexcept;
    std::size_t settle(std::unique_ptr<Message> message, SinkListener &listener) noexcept;
    void fail(const Message &message, const Failure &why, SinkListener &listener) noexcept;
    std::size_t fail_all(MessageList &&messages, const Failure &why,
                         SinkListener &listener) noexcept;
    void forget(const Message &message) noexcept;

    std::shared_ptr<Session> session_;
    pthread_t thread_ = {};
    bool running_ = false;
    bool purged_ = false;
    Lanes lanes_;
    MessageList reports_; // taken from the mailbox
    MessageList dropped_; // by purge(), unsent
    std::size_t outstanding_ = 0;
    std::size_t bytes_ = 0;
};

} // namespace outbox::amqp
