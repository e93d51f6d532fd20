#include "publisher.h"

#include "bgworker/sinks/signals_blocked.h"

#include <ctime>
#include <exception>
#include <new>
#include <utility>

namespace outbox::amqp
{

namespace
{

constexpr int kCloseMs = 1000;

Failure
consequence(const char *text) noexcept
{
    Failure failure;
    set_failure(failure, FailureClass::retriable, "GIVEN_UP", "%s", text);
    failure.consequence = true;
    return failure;
}

void
describe_no_memory(Failure &why) noexcept
{
    set_failure(why, FailureClass::retriable, "OUT_OF_MEMORY", "out of memory");
}

void *
run(void *argument) noexcept
{
    const std::unique_ptr<std::shared_ptr<Session>> session(
        static_cast<std::shared_ptr<Session> *>(argument));
    (*session)->sender.run();
    return nullptr;
}

timespec
deadline_after(int timeout_ms) noexcept
{
    constexpr long kSecond = 1000L * 1000 * 1000;
    timespec deadline;
    (void) clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += timeout_ms / 1000;
    deadline.tv_nsec += timeout_ms % 1000 * 1000L * 1000;
    if (deadline.tv_nsec >= kSecond)
    {
        deadline.tv_sec++;
        deadline.tv_nsec -= kSecond;
    }
    return deadline;
}

} // namespace

std::unique_ptr<Publisher>
Publisher::create(const Settings &settings, int wake_fd, Failure &why) noexcept
{
    try
    {
        std::unique_ptr<Publisher> publisher(
            new Publisher(std::make_shared<Session>(settings, wake_fd)));
        return publisher->start(why) ? std::move(publisher) : nullptr;
    }
    catch (const std::exception &)
    {
        describe_no_memory(why);
        return nullptr;
    }
}

bool
Publisher::start(Failure &why) noexcept
{
    if (!session_->mailbox.is_good())
    {
        set_failure(why, FailureClass::retriable, "NO_DESCRIPTOR", "no descriptor could be opened");
        return false;
    }
    auto *argument = new (std::nothrow) std::shared_ptr<Session>(session_);
    if (argument == nullptr)
    {
        describe_no_memory(why);
        return false;
    }
    const SignalsBlocked blocked;
    running_ = pthread_create(&thread_, nullptr, run, argument) == 0;
    if (running_)
        return true;
    delete argument;
    set_failure(why, FailureClass::retriable, "NO_THREAD", "no thread could be started");
    return false;
}

Publisher::~Publisher()
{
    (void) close(kCloseMs);
}

// A thread that is in a name service, or in the middle of logging in, ends by itself, and what it
// uses with it.
bool
Publisher::close(int timeout_ms) noexcept
{
    if (!running_)
        return true;
    running_ = false;
    Orders orders;
    orders.stop = true;
    session_->mailbox.order(orders);
    const timespec deadline = deadline_after(timeout_ms);
    if (pthread_clockjoin_np(thread_, nullptr, CLOCK_MONOTONIC, &deadline) == 0)
        return true;
    (void) pthread_detach(thread_);
    return false;
}

bool
Publisher::has_room(std::size_t bytes) const noexcept
{
    const Settings &settings = session_->settings;
    return outstanding_ == 0 ||
           (outstanding_ < settings.max_messages && bytes_ + bytes <= settings.max_bytes);
}

ProduceResult
Publisher::produce(const Record &record, Failure &why) noexcept
{
    if (!has_room(size_in_flight(record)))
        return ProduceResult::queue_full;
    try
    {
        std::unique_ptr<Message> message = Message::make(record, why);
        if (!message)
            return ProduceResult::failed;
        const std::size_t size = message->size();
        message = lanes_.add(std::move(message));
        if (message)
            session_->mailbox.send(std::move(message));
        outstanding_++;
        bytes_ += size;
        return ProduceResult::queued;
    }
    catch (const std::exception &)
    {
        describe_no_memory(why);
        return ProduceResult::failed;
    }
}

void
Publisher::forget(const Message &message) noexcept
{
    outstanding_--;
    bytes_ -= message.size();
}

void
Publisher::fail(const Message &message, const Failure &why, SinkListener &listener) noexcept
{
    forget(message);
    Failure told = why;
    told.possibly_persisted = message.possibly_persisted;
    listener.failed(message.tag, told);
}

std::size_t
Publisher::fail_all(MessageList &&messages, const Failure &why, SinkListener &listener) noexcept
{
    std::size_t count = 0;
    for (; std::unique_ptr<Message> message = messages.pop(); count++)
        fail(*message, why, listener);
    return count;
}

// The lane is free before the listener hears of it. What waits behind a refused message is given up
// with it.
std::size_t
Publisher::settle(std::unique_ptr<Message> message, SinkListener &listener) noexcept
{
    if (message->outcome == Outcome::delivered)
    {
        if (std::unique_ptr<Message> next = lanes_.next_after(*message))
            session_->mailbox.send(std::move(next));
        forget(*message);
        listener.delivered(message->tag);
        return 1;
    }
    MessageList behind = lanes_.take_behind(*message);
    if (!message->failure)
    {
        const Failure why = consequence("the connection was given up");
        fail(*message, why, listener);
        return 1 + fail_all(std::move(behind), why, listener);
    }
    fail(*message, *message->failure, listener);
    return 1 + fail_all(std::move(behind), consequence("an earlier event of its key was refused"),
                        listener);
}

std::size_t
Publisher::serve(SinkListener &listener, std::size_t max_events) noexcept
{
    reports_.append(session_->mailbox.take_reports());
    Failure trouble;
    while (session_->mailbox.take_trouble(trouble))
        listener.trouble(trouble);
    std::size_t served =
        fail_all(std::move(dropped_), consequence("the connection was given up"), listener);
    if (!reports_.empty())
        listener.batch(reports_.size());
    while (served < max_events && !reports_.empty())
        served += settle(reports_.pop(), listener);
    if (!reports_.empty())
        session_->mailbox.set_news();
    return served;
}

void
Publisher::purge() noexcept
{
    if (std::exchange(purged_, true))
        return;
    dropped_.append(lanes_.take_all());
    Orders orders;
    orders.give_up = true;
    session_->mailbox.order(orders);
    session_->mailbox.set_news();
}

bool
Publisher::fatal(Failure &why) const noexcept
{
    return session_->mailbox.has_failed(why);
}

bool
Publisher::reachable(int) noexcept
{
    return session_->mailbox.is_open();
}

} // namespace outbox::amqp
