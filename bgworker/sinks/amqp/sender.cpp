#include "sender.h"

#include "setup.h"
#include "shown.h"

#include <algorithm>
#include <exception>
#include <poll.h>
#include <sys/ioctl.h>

namespace outbox::amqp
{

namespace
{

constexpr int kBeatMs = 1000; // heartbeats are looked after as often
constexpr int kMaxNacks = 3;

int
ms_between(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to)
{
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(to - from).count();
    return static_cast<int>(std::clamp<std::int64_t>(ms, 0, 3600000));
}

} // namespace

Sender::Sender(const Settings &settings, Mailbox &mailbox) : settings_(settings), mailbox_(mailbox)
{
    backoff_.configure(settings.backoff_initial_ms, settings.backoff_max_ms);
    random_.seed(static_cast<unsigned>(Steady::now().time_since_epoch().count()));
}

void
Sender::run() noexcept
{
    constexpr int kPartMs = 100;
    Failure why;
    set_failure(why, FailureClass::fatal, "OUT_OF_MEMORY", "out of memory");
    try
    {
        while (!stopping_)
            turn();
        if (connection_)
            connection_->part(kPartMs);
        connection_.reset();
        return;
    }
    catch (const std::bad_alloc &)
    {
    }
    catch (const std::exception &error)
    {
        set_failure(why, FailureClass::fatal, "INTERNAL_ERROR", "%s", error.what());
    }
    give_up();
    mailbox_.report(std::move(done_));
    mailbox_.fail(why);
}

void
Sender::turn()
{
    const Orders orders = mailbox_.take_work(ready_);
    stopping_ = stopping_ || orders.stop;
    if (orders.give_up)
        give_up();
    full_ = more_ = false;
    if (!stopping_ && !gave_up_)
    {
        // librabbitmq reads as long as something comes that is not for us, such as heartbeats.
        const Lifeline::Held held(lifeline_);
        if (!connection_ && Steady::now() >= connect_at_)
            connect();
        if (connection_)
        {
            retry_due();
            publish_some();
        }
        if (connection_)
            listen();
        if (connection_)
            watch_confirms();
    }
    mailbox_.report(std::move(done_));
    if (!stopping_)
        wait(wait_ms());
}

int
Sender::wait_ms() const noexcept
{
    if (gave_up_)
        return -1;
    if (more_)
        return 0;
    const auto now = Steady::now();
    if (!connection_)
        return ms_between(now, connect_at_) + 1;
    int timeout_ms = kBeatMs;
    if (!later_.empty())
        timeout_ms = std::min(timeout_ms, ms_between(now, later_.begin()->first) + 1);
    return timeout_ms;
}

void
Sender::wait(int timeout_ms) const noexcept
{
    pollfd wanted[] = {{mailbox_.work_fd(), POLLIN, 0}, {-1, POLLIN, 0}};
    if (connection_)
        wanted[1].fd = connection_->fd();
    if (full_)
        wanted[1].events |= POLLOUT;
    (void) poll(wanted, 2, timeout_ms);
}

void
Sender::connect()
{
    Failure why;
    read_password_again(settings_);
    connection_ = Connection::open(settings_, mailbox_.stop_fd(), lifeline_, why);
    if (!connection_)
    {
        pause();
        tell(why);
        return;
    }
    progress_ = blocked_ = false;
    progress_at_ = Steady::now();
    mailbox_.set_open(true);
}

void
Sender::retry_due() noexcept
{
    const auto now = Steady::now();
    while (!later_.empty() && later_.begin()->first <= now)
    {
        ready_.push(std::move(later_.begin()->second));
        later_.erase(later_.begin());
    }
}

// Suspects have the connection for themselves.
bool
Sender::has_next() noexcept
{
    if (suspects_.may_send(unconfirmed_.size()))
        return true;
    return !suspects_.any() && !ready_.empty();
}

bool
Sender::take_next()
{
    if (suspects_.any())
    {
        if (suspects_.may_send(unconfirmed_.size()))
            current_ = suspects_.next();
        return current_ != nullptr;
    }
    while (!current_ && !ready_.empty())
    {
        std::unique_ptr<Message> message = ready_.pop();
        if (shares_.admit(message, Steady::now()))
            current_ = std::move(message);
    }
    return current_ != nullptr;
}

// What RabbitMQ has begun to read is sent to its end.
void
Sender::publish_some()
{
    constexpr int kAtOnce = 256;
    for (int i = 0; i < kAtOnce; i++)
    {
        if (!connection_->is_in_message() && (blocked_ || unconfirmed_.size() >= settings_.window))
            return;
        if (!current_ && !take_next())
            return;
        Failure why;
        switch (connection_->publish(*current_, why))
        {
        case Connection::Sent::all:
            if (unconfirmed_.empty())
                progress_at_ = Steady::now();
            shares_.sent(*current_, Steady::now());
            unconfirmed_.add(current_);
            break;
        case Connection::Sent::part:
            full_ = true;
            return;
        case Connection::Sent::refused:
            refuse(std::move(current_), why);
            break;
        case Connection::Sent::broken:
            broken(why);
            return;
        }
    }
    more_ = true;
}

// RabbitMQ may have said why before it closed the socket.
void
Sender::broken(const Failure &why)
{
    End end;
    if (connection_->listen(*this, end) == Connection::Heard::end && end.by_server)
        close_for(end);
    else
        lost(why);
}

void
Sender::listen()
{
    // So that somebody looks whether this ends.
    constexpr int kLittle = 4096;
    constexpr std::chrono::seconds kLong(2);
    int waiting = 0;
    if (unconfirmed_.empty() || ::ioctl(connection_->fd(), FIONREAD, &waiting) != 0 ||
        waiting > kLittle)
        mailbox_.begin_long();
    const Steady::time_point begin = Steady::now();
    End end;
    const Connection::Heard heard = connection_->listen(*this, end);
    mailbox_.end_long();
    // Whoever talked for so long has only talked.
    progress_ = progress_ && Steady::now() - begin < kLong;
    switch (heard)
    {
    case Connection::Heard::all:
        break;
    case Connection::Heard::more:
        more_ = true;
        break;
    case Connection::Heard::end:
        close_for(end);
        break;
    }
    // Confirms have made room.
    if (connection_ && !full_ && !blocked_ && unconfirmed_.size() < settings_.window)
        more_ = more_ || current_ || has_next();
}

void
Sender::watch_confirms()
{
    if (unconfirmed_.empty() || blocked_)
        return;
    Failure why;
    const auto now = Steady::now();
    const int quiet_ms = ms_between(progress_at_, now);
    const Share *share = nullptr;
    if (quiet_ms < settings_.confirm_timeout_ms)
        share = shares_.stops_channel(progress_at_, now, !ready_.empty());
    if (share != nullptr)
    {
        set_failure(why, FailureClass::retriable, "CHANNEL_STOPPED",
                    "RabbitMQ has confirmed nothing for %d s; a queue that gets routing key \"%s\" "
                    "may hang, with %zu messages on their way",
                    quiet_ms / 1000, Shown(*share->routing_key).text, share->sent);
        return lost(why);
    }
    if (quiet_ms < settings_.confirm_timeout_ms)
        return;
    set_failure(why, FailureClass::retriable, "CONFIRM_TIMEOUT",
                "RabbitMQ has confirmed none of %zu messages for %d s", unconfirmed_.size(),
                settings_.confirm_timeout_ms / 1000);
    lost(why);
}

void
Sender::tell(Failure trouble) noexcept
{
    trouble.cls = FailureClass::retriable;
    trouble.summary = true; // nothing gets through, which is more than a piece of news
    if (!connection_)
        trouble.retry_after_ms = ms_between(Steady::now(), connect_at_);
    mailbox_.set_open(false);
    mailbox_.report_trouble(trouble);
}

// At once if it was of use before.
void
Sender::pause() noexcept
{
    connect_at_ = Steady::now();
    if (progress_)
        backoff_.succeed();
    else
        connect_at_ += std::chrono::milliseconds(backoff_.fail(random_()));
    progress_ = false;
}

void
Sender::note_progress() noexcept
{
    progress_ = true;
    progress_at_ = Steady::now();
}

bool
Sender::confirmed(std::uint64_t number, bool multiple, bool taken)
{
    if (!unconfirmed_.confirm(number, multiple, settled_))
        return false;
    note_progress();
    while (std::unique_ptr<Message> message = settled_.pop())
    {
        shares_.answered(*message, progress_at_, ready_);
        settle(std::move(message), taken);
    }
    // Nobody looks after the thread for what is under way any more, and it may be told more.
    if (unconfirmed_.empty())
        mailbox_.begin_long();
    return true;
}

void
Sender::settle(std::unique_ptr<Message> message, bool taken)
{
    if (taken || message->outcome == Outcome::failed)
        return done_.push(std::move(message));
    message->possibly_persisted = true;
    if (++message->nacks < kMaxNacks)
    {
        Backoff backoff;
        backoff.configure(settings_.backoff_initial_ms, settings_.backoff_max_ms);
        std::int64_t ms = 0;
        for (int i = 0; i < message->nacks; i++)
            ms = backoff.fail(random_());
        later_.emplace(Steady::now() + std::chrono::milliseconds(ms), std::move(message));
        return;
    }
    Failure why;
    set_failure(why, FailureClass::topic, "NACK",
                "RabbitMQ does not take the message (basic.nack), for the %drd time",
                message->nacks);
    set_hint(why, "A queue may be full with overflow reject-publish, or have lost its "
                  "leader; RabbitMQ's log says more.");
    refuse(std::move(message), why);
}

bool
Sender::returned(std::string_view id, std::string_view routing_key, const Failure &why)
{
    return unconfirmed_.give_back(id, routing_key, std::make_unique<Failure>(why));
}

void
Sender::blocked(std::string_view reason)
{
    blocked_ = true;
    Failure why;
    set_failure(why, FailureClass::retriable, "BLOCKED",
                "RabbitMQ takes no messages at present: %s", Shown(reason).text);
    set_hint(why, "It has an alarm for memory or disk: rabbitmq-diagnostics alarms. "
                  "Publishing goes on when that is over.");
    tell(why);
}

void
Sender::unblocked()
{
    blocked_ = false;
    progress_at_ = Steady::now();
    mailbox_.set_open(true);
}

} // namespace outbox::amqp
