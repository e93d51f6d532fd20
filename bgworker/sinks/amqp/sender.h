// The thread of a connection: sends what is in the mailbox, and reports what became of it.
#pragma once

#include "connection.h"
#include "mailbox.h"
#include "shares.h"
#include "suspects.h"
#include "unconfirmed.h"

#include "bgworker/engine/common/backoff.h"

#include <chrono>
#include <map>
#include <random>

namespace outbox::amqp
{

//     away ── connect() ──▶ open ── lost(): the pause grows as long as nothing is confirmed ──▶
//     away
//
// A message is given up for its own sake only: it came back, its like closes the channel, or
// RabbitMQ says no to it again and again. Whatever else happens, it is kept and sent again.
class Sender final : private Ears
{
public:
    Sender(const Settings &settings, Mailbox &mailbox);
    ~Sender() override = default;
    Sender(const Sender &) = delete;
    Sender &operator=(const Sender &) = delete;

    // Until it is told to stop.
    void run() noexcept;
    // For another thread: over which connection it is held up, in librabbitmq.
    Lifeline &lifeline() noexcept { return lifeline_; }

private:
    using Steady = std::chrono::steady_clock;

    void turn();
    void wait(int timeout_ms) const noexcept;
    void connect();
    void retry_due() noexcept;
    void publish_some();
    bool has_next() noexcept;
    bool take_next();
    void listen();
    void watch_confirms();
    int wait_ms() const noexcept;

    void broken(const Failure &why);
    void close_for(const End &end);
    void lost(const Failure &why);
    void put_back(MessageList &&messages) noexcept;
    void pause() noexcept;
    MessageList take_sent() noexcept;
    void refuse_topic(const End &end, MessageList &&sent);
    void refuse(std::unique_ptr<Message> message, const Failure &why) noexcept;
    bool is_refused_alone(Message &message, int code) const noexcept;
    void give_up() noexcept;
    void tell(Failure trouble) noexcept;

    bool confirmed(std::uint64_t number, bool multiple, bool taken) override;
    bool returned(std::string_view id, std::string_view routing_key, const Failure &why) override;
    void blocked(std::string_view reason) override;
    void unblocked() override;
    void note_progress() noexcept;
    void settle(std::unique_ptr<Message> message, bool taken);

    Settings settings_; // with the password of now
    Mailbox &mailbox_;
    Backoff backoff_;
    std::minstd_rand random_;

    Lifeline lifeline_;
    std::unique_ptr<Connection> connection_;
    Steady::time_point connect_at_;
    bool blocked_ = false;
    bool progress_ = false; // something was confirmed over this connection
    Steady::time_point progress_at_;

    MessageList ready_;
    std::unique_ptr<Message> current_; // taken from ready_, and not whole on its way
    Unconfirmed unconfirmed_;
    Shares shares_;
    MessageList settled_; // confirmed, and not looked at yet
    Suspects suspects_;
    std::multimap<Steady::time_point, std::unique_ptr<Message>> later_; // RabbitMQ said no
    MessageList done_;                                                  // to be reported

    bool stopping_ = false;
    bool gave_up_ = false;
    bool full_ = false; // the socket takes no more
    bool more_ = false; // there is more to do at once
};

} // namespace outbox::amqp
