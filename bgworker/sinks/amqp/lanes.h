// One message of a lane at a time.
#pragma once

#include "message.h"

#include <string>
#include <unordered_map>

namespace outbox::amqp
{

// What waits for one of its lane.
struct Line
{
    const std::string *lane = nullptr;
    MessageList waiting;
};

// RabbitMQ may take a later message although it has refused an earlier one. So of a lane, which is
// topic and key, at most one message is under way; the others wait here in their order.
class Lanes
{
public:
    // Returns the message if it may go at once, else null: it waits. May throw std::bad_alloc; then
    // the message is gone, and nothing has changed.
    std::unique_ptr<Message> add(std::unique_ptr<Message> message);
    // That which was under way has arrived; returns the next one of its lane.
    std::unique_ptr<Message> next_after(const Message &message) noexcept;
    // It was refused; returns all that waits behind it, and the lane is free.
    MessageList take_behind(const Message &message) noexcept;
    // All that waits, of all lanes; what is under way keeps its lane.
    MessageList take_all() noexcept;

private:
    std::unordered_map<std::string, Line> lines_; // of the lanes of which one is under way
};

} // namespace outbox::amqp
