#include "lanes.h"

#include <utility>

namespace outbox::amqp
{

std::unique_ptr<Message>
Lanes::add(std::unique_ptr<Message> message)
{
    const auto [found, fresh] = lines_.try_emplace(std::string(message->lane()));
    Line &line = found->second;
    if (fresh)
    {
        line.lane = &found->first;
        message->line = &line;
        return message;
    }
    line.waiting.push(std::move(message));
    return nullptr;
}

std::unique_ptr<Message>
Lanes::next_after(const Message &message) noexcept
{
    Line *const line = message.line;
    std::unique_ptr<Message> next = line->waiting.pop();
    if (next)
        next->line = line;
    else
        (void) lines_.erase(lines_.find(*line->lane));
    return next;
}

MessageList
Lanes::take_behind(const Message &message) noexcept
{
    MessageList behind(std::move(message.line->waiting));
    (void) lines_.erase(lines_.find(*message.line->lane));
    return behind;
}

MessageList
Lanes::take_all() noexcept
{
    MessageList all;
    for (auto &line : lines_)
        all.append(std::move(line.second.waiting));
    return all;
}

} // namespace outbox::amqp
