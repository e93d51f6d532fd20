// Finds the message for which RabbitMQ closes the channel.
#pragma once

#include "message.h"

#include <algorithm>

namespace outbox::amqp
{

// RabbitMQ does not say which message it was. So those that were on their way are sent again in
// smaller groups, each confirmed before the next: a group that closes the channel is halved, one
// that is confirmed doubles the next, and a group of one is the culprit.
class Suspects
{
public:
    bool any() const noexcept { return !waiting_.empty() || sent_ > 0; }
    // Whether one more may be sent, while `unconfirmed` are.
    bool may_send(std::size_t unconfirmed) noexcept
    {
        if (unconfirmed == 0 && sent_ > 0)
        {
            sent_ = 0;
            group_ *= 2;
        }
        return !waiting_.empty() && sent_ < group_;
    }
    std::unique_ptr<Message> next() noexcept
    {
        sent_++;
        return waiting_.pop();
    }
    // The channel was closed while these were on their way, more than one.
    void add(MessageList &&messages) noexcept
    {
        group_ = std::max<std::size_t>(messages.size() / 2, 1);
        sent_ = 0;
        messages.append(std::move(waiting_));
        waiting_.append(std::move(messages));
    }
    // The connection was lost for another reason: nothing is on its way.
    void begin_again(MessageList &&messages) noexcept
    {
        sent_ = 0;
        messages.append(std::move(waiting_));
        waiting_.append(std::move(messages));
    }
    MessageList take_all() noexcept
    {
        sent_ = 0;
        return std::move(waiting_);
    }

private:
    MessageList waiting_;
    std::size_t group_ = 1;
    std::size_t sent_ = 0; // of the group
};

} // namespace outbox::amqp
