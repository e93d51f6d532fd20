// What passes between the relay's thread and that of a connection.
#pragma once

#include "message.h"

#include <atomic>
#include <cstddef>
#include <mutex>

namespace outbox::amqp
{

// A descriptor that is readable from set() to reset().
class Signal
{
public:
    // -1: the system has no more descriptors.
    Signal() noexcept;
    // A second descriptor of a signal that belongs to somebody else, and may be closed by him.
    explicit Signal(int fd) noexcept;
    ~Signal();
    Signal(const Signal &) = delete;
    Signal &operator=(const Signal &) = delete;

    int fd() const noexcept { return fd_; }
    void set() const noexcept;
    void reset() const noexcept;

private:
    const int fd_;
};

// Requests to the connection's thread.
struct Orders
{
    bool stop = false;
    bool give_up = false; // all that it has
};

// Neither side waits for the other, but for the few instructions under the lock.
class Mailbox
{
public:
    // News go to `wake_fd`, which may be -1.
    explicit Mailbox(int wake_fd) noexcept : news_(wake_fd) {}

    // The relay's side.
    void send(std::unique_ptr<Message> message) noexcept;
    void order(const Orders &orders) noexcept;
    // Takes what has become of messages; resets the descriptor.
    MessageList take_reports() noexcept;
    bool take_trouble(Failure &trouble) noexcept;
    // The descriptor is set although nothing is new.
    void set_news() noexcept { news_.set(); }
    bool is_listening_long() const noexcept { return is_listening_long_; }
    bool is_open() noexcept;
    bool has_failed(Failure &why) noexcept;

    // The connection's side.
    bool is_good() const noexcept { return work_.fd() != -1 && stop_.fd() != -1; }
    // Readable when there is something to take, or to stop for.
    int work_fd() const noexcept { return work_.fd(); }
    int stop_fd() const noexcept { return stop_.fd(); }
    // Adds messages that are to be sent, and returns what was ordered, once.
    Orders take_work(MessageList &messages) noexcept;
    void report(MessageList &&messages) noexcept;
    void report_trouble(const Failure &trouble) noexcept;
    // Whether RabbitMQ takes messages.
    void set_open(bool open) noexcept;
    // Much has come: whether the thread gets out of librabbitmq again is to be looked after until
    // it is done.
    void begin_long() noexcept;
    void end_long() noexcept { is_listening_long_ = false; }
    // The thread can do no more.
    void fail(const Failure &why) noexcept;

private:
    std::atomic<bool> is_listening_long_{false};
    const Signal work_;
    const Signal stop_;
    const Signal news_;
    std::mutex mutex_;
    MessageList messages_;
    Orders orders_;
    MessageList reports_;
    // The newest that were not taken; older ones make room.
    static constexpr std::size_t kMaxTroubles = 8;
    Failure troubles_[kMaxTroubles];
    std::size_t first_trouble_ = 0;
    std::size_t trouble_count_ = 0;
    bool open_ = false;
    bool failed_ = false;
    Failure failure_;
};

} // namespace outbox::amqp
