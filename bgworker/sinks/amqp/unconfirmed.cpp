#include "unconfirmed.h"

#include <utility>

namespace outbox::amqp
{

void
Unconfirmed::add(std::unique_ptr<Message> &message)
{
    sent_.emplace_back();
    message->outcome = Outcome::delivered;
    sent_.back() = std::move(message);
    count_++;
}

bool
Unconfirmed::give_back(std::string_view id, std::string_view routing_key,
                       std::unique_ptr<Failure> why) noexcept
{
    for (const std::unique_ptr<Message> &message : sent_)
    {
        if (!message || message->outcome == Outcome::failed || message->id() != id ||
            message->routing_key() != routing_key)
            continue;
        message->outcome = Outcome::failed;
        message->failure = std::move(why);
        return true;
    }
    return false;
}

std::unique_ptr<Message>
Unconfirmed::take(std::uint64_t number) noexcept
{
    std::unique_ptr<Message> message = std::move(sent_[number - first_]);
    if (message)
        count_--;
    return message;
}

void
Unconfirmed::forget_confirmed() noexcept
{
    while (!sent_.empty() && !sent_.front())
    {
        sent_.pop_front();
        first_++;
    }
}

bool
Unconfirmed::confirm(std::uint64_t to, bool multiple, MessageList &confirmed) noexcept
{
    const std::uint64_t end = first_ + sent_.size();
    if (to >= end || (to == 0 && !multiple))
        return false;
    if (to == 0)
        to = end - 1;
    for (std::uint64_t number = multiple ? first_ : to; number >= first_ && number <= to; number++)
        if (std::unique_ptr<Message> message = take(number))
            confirmed.push(std::move(message));
    forget_confirmed();
    return true;
}

MessageList
Unconfirmed::take_all() noexcept
{
    MessageList all;
    for (std::unique_ptr<Message> &message : sent_)
        if (message)
            all.push(std::move(message));
    sent_.clear();
    first_ = 1;
    count_ = 0;
    return all;
}

} // namespace outbox::amqp
