#include "lanes.h"

#include <utility>

namespace outbox::amqp
{

std::unique_ptr<Message>
Lanes::add(std::unique_ptr<Message> message)
{
    const auto [line, fresh] = lines_.try_emplace(message->lane());
    if (fresh)
        return message;
    line->second.push(std::move(message));
    return nullptr;
}

std::unique_ptr<Message>
Lanes::next_after(const Message &message) noexcept
{
    const auto found = lines_.find(message.lane());
    if (found == lines_.end())
        return nullptr;
    std::unique_ptr<Message> next = found->second.pop();
    if (!next)
    {
        lines_.erase(found);
        return nullptr;
    }
    // Nothing is allocated: the node stays.
    auto node = lines_.extract(found);
    node.key() = next->lane();
    (void) lines_.insert(std::move(node));
    return next;
}

MessageList
Lanes::take_behind(const Message &message) noexcept
{
    MessageList behind;
    const auto found = lines_.find(message.lane());
    if (found == lines_.end())
        return behind;
    behind.append(std::move(found->second));
    lines_.erase(found);
    return behind;
}

MessageList
Lanes::take_all() noexcept
{
    MessageList all;
    for (auto &line : lines_)
        all.append(std::move(line.second));
    return all;
}

} // namespace outbox::amqp
