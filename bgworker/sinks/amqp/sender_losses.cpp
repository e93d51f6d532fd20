// What becomes of messages when a connection ends.
#include "sender.h"

#include "library.h"
#include "shown.h"

#include <new>

namespace outbox::amqp
{

namespace
{

// RabbitMQ 4 says which access.
constexpr std::string_view kTopicRefused[] = {"ACCESS_REFUSED - access to topic '",
                                              "ACCESS_REFUSED - write access to topic '"};

bool
begins(std::string_view text, std::string_view with) noexcept
{
    return text.substr(0, with.size()) == with;
}

// Whether it is a routing key that RabbitMQ would not let this user send with.
bool
names_topic(std::string_view said) noexcept
{
    return begins(said, kTopicRefused[0]) || begins(said, kTopicRefused[1]);
}

// Whether it is that one.
bool
is_refused_topic(std::string_view said, std::string_view routing_key) noexcept
{
    if (!names_topic(said))
        return false;
    said.remove_prefix(said.find('\'') + 1);
    return begins(said, routing_key) && begins(said.substr(routing_key.size()), "' in exchange");
}

// Closed for what one message is, as far as the code says.
bool
may_be_of_one(int code) noexcept
{
    switch (code)
    {
    case AMQP_CONTENT_TOO_LARGE:
    case AMQP_PRECONDITION_FAILED:
    case AMQP_FRAME_ERROR:
    case AMQP_SYNTAX_ERROR:
    case AMQP_NOT_IMPLEMENTED:
    case AMQP_INTERNAL_ERROR:
        return true;
    default:
        return false;
    }
}

} // namespace

MessageList
Sender::take_sent() noexcept
{
    MessageList sent = unconfirmed_.take_all();
    if (current_)
        sent.push(std::move(current_));
    MessageList marked;
    while (std::unique_ptr<Message> message = sent.pop())
    {
        message->possibly_persisted = true;
        message->share = nullptr;
        message->outcome = Outcome::delivered;
        message->failure.reset();
        marked.push(std::move(message));
    }
    ready_.append(shares_.reset());
    return marked;
}

// In its order, before all others.
void
Sender::put_back(MessageList &&messages) noexcept
{
    if (suspects_.any())
        return suspects_.begin_again(std::move(messages));
    messages.append(std::move(ready_));
    ready_.append(std::move(messages));
}

void
Sender::lost(const Failure &why)
{
    connection_.reset();
    blocked_ = false;
    put_back(take_sent());
    pause();
    tell(why);
}

// A server error may have other reasons than the message; not three times.
bool
Sender::is_refused_alone(Message &message, int code) const noexcept
{
    constexpr int kServerErrors = 3;
    return code != AMQP_INTERNAL_ERROR || ++message.nacks >= kServerErrors;
}

void
Sender::close_for(const End &end)
{
    if (end.by_server && names_topic(end.said))
    {
        connection_.reset();
        return refuse_topic(end, take_sent());
    }
    const bool any_sent = !unconfirmed_.empty() || connection_->is_in_message();
    if (!end.by_server || !may_be_of_one(end.why.code) || !any_sent)
        return lost(end.why);
    connection_.reset();
    mailbox_.set_open(false);
    MessageList sent = take_sent();
    if (sent.size() > 1)
    {
        suspects_.add(std::move(sent));
        progress_ = true; // half of them are left
        return pause();
    }
    std::unique_ptr<Message> message = sent.pop();
    if (is_refused_alone(*message, end.why.code))
    {
        Failure why = end.why;
        why.cls = FailureClass::event;
        why.too_large = end.said.find("larger than") != std::string::npos;
        refuse(std::move(message), why);
        progress_ = true;
        return pause();
    }
    sent.push(std::move(message));
    suspects_.add(std::move(sent));
    pause();
    tell(end.why);
}

// All that have this routing key would fare the same.
void
Sender::refuse_topic(const End &end, MessageList &&sent)
{
    Failure why = end.why;
    why.cls = FailureClass::topic;
    bool found = false;
    const auto sweep = [&](MessageList &&from)
    {
        MessageList kept;
        while (std::unique_ptr<Message> message = from.pop())
        {
            if (!is_refused_topic(end.said, message->routing_key()))
                kept.push(std::move(message));
            else
            {
                refuse(std::move(message), why);
                found = true;
            }
        }
        return kept;
    };
    MessageList waiting = sweep(std::move(ready_));
    ready_.append(std::move(waiting));
    put_back(sweep(std::move(sent)));
    mailbox_.set_open(false);
    progress_ = progress_ || found;
    pause();
    if (!found)
        tell(end.why);
}

void
Sender::refuse(std::unique_ptr<Message> message, const Failure &why) noexcept
{
    // Without memory for the reason it goes back without one, and is queued again.
    message->failure.reset(new (std::nothrow) Failure(why));
    message->outcome = Outcome::failed;
    done_.push(std::move(message));
}

// Whatever is held goes back without a reason of its own.
void
Sender::give_up() noexcept
{
    gave_up_ = true;
    connection_.reset();
    mailbox_.set_open(false);
    MessageList all = take_sent();
    all.append(std::move(settled_));
    all.append(suspects_.take_all());
    all.append(std::move(ready_));
    for (auto &item : later_)
        all.push(std::move(item.second));
    later_.clear();
    while (std::unique_ptr<Message> message = all.pop())
    {
        message->outcome = Outcome::failed;
        message->failure.reset();
        done_.push(std::move(message));
    }
}

} // namespace outbox::amqp
