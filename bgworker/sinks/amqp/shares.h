// How much of what is on its way may be of one routing key.
#pragma once

#include "message.h"

#include <chrono>
#include <string>
#include <unordered_map>

namespace outbox::amqp
{

// What has the same routing key goes to the same queues.
struct Share
{
    const std::string *routing_key = nullptr;
    std::size_t sent = 0;                        // and not confirmed
    std::size_t most = 0;                        // of these
    std::chrono::steady_clock::time_point since; // nothing of it was confirmed
    MessageList parked;
};

// A queue that hangs confirms nothing, and when some have piled up before it (32 for a quorum
// queue, 400 for a classic one) RabbitMQ stops reading the channel, which all queues share. So a
// routing key begins with few messages, gets twice as many whenever all of these were confirmed,
// and none while nothing of it is confirmed for a second; its messages are parked.
class Shares
{
public:
    using Steady = std::chrono::steady_clock;

    // Whether the message may be sent; if not, it is parked here. May throw std::bad_alloc, and
    // then the message is the caller's still.
    bool admit(std::unique_ptr<Message> &message, Steady::time_point now);
    // It goes out, admitted or not. May throw std::bad_alloc, and then nothing has changed.
    void sent(Message &message, Steady::time_point now);
    // It was confirmed, or RabbitMQ said no to it: what was parked behind it and may go is added to
    // `ready`.
    void answered(Message &message, Steady::time_point now, MessageList &ready) noexcept;
    // The channel is gone, and with it what was on its way. Returns what was parked.
    MessageList reset() noexcept;

    // Nothing was confirmed since `quiet_since`. Returns the one whose queue has probably stopped
    // the channel, if others wait: that of which none was confirmed for the longest time, while
    // others were; or nothing was at all for long, or since the channel before was stopped, and
    // then each begins with fewer. Null: there is none, or nothing helps. It takes three seconds,
    // and longer each time: RabbitMQ may be about to answer. `any_ready`: some messages are not
    // sent yet.
    const Share *stops_channel(Steady::time_point quiet_since, Steady::time_point now,
                               bool any_ready) noexcept;

private:
    static constexpr std::size_t kFirst = 16;
    static constexpr std::size_t kMost = 65536;
    static constexpr std::chrono::milliseconds kPatience{1000};
    static constexpr std::chrono::milliseconds kWhileOthers{100};
    static constexpr std::chrono::seconds kStopped{3};
    static constexpr std::chrono::seconds kLong{10};
    static constexpr std::chrono::seconds kJustNow{60};

    std::unordered_map<std::string, Share> shares_; // of which something is on its way
    std::size_t first_ = kFirst;
    Steady::time_point stopped_at_;
    int stops_ = 0; // the last ones, each just after the one before
};

} // namespace outbox::amqp
