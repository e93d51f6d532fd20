// What was sent over a channel and is not confirmed.
#pragma once

#include "message.h"

#include <cstdint>
#include <deque>

namespace outbox::amqp
{

// RabbitMQ counts the messages of a channel from 1, and confirms them by number, in any order and
// many at a time. It returns a message that no queue gets before it acknowledges it.
class Unconfirmed
{
public:
    // May throw std::bad_alloc; then the message is the caller's still.
    void add(std::unique_ptr<Message> &message);

    std::size_t size() const noexcept { return count_; }
    bool empty() const noexcept { return count_ == 0; }

    // A message came back, for this reason. False: no such message is on its way.
    bool give_back(std::string_view id, std::string_view routing_key,
                   std::unique_ptr<Failure> why) noexcept;
    // Takes the messages that number `to` confirms, all up to it if `multiple`; 0 and multiple
    // stands for all. What came back is `failed`. False: RabbitMQ cannot have seen that number.
    bool confirm(std::uint64_t to, bool multiple, MessageList &confirmed) noexcept;
    // The channel is gone: takes all, in the order in which they were sent; numbers begin anew.
    MessageList take_all() noexcept;

private:
    std::unique_ptr<Message> take(std::uint64_t number) noexcept;
    void forget_confirmed() noexcept;

    std::deque<std::unique_ptr<Message>> sent_; // null: confirmed
    std::uint64_t first_ = 1;                   // number of the first of them
    std::size_t count_ = 0;
};

} // namespace outbox::amqp
