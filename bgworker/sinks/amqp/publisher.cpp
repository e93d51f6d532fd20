#include "publisher.h"

#include "bgworker/sinks/signals_blocked.h"
#include "bgworker/sinks/thread_end.h"

#include <algorithm>
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

// librabbitmq reads tables within tables by recursion, of a header too, which has up to 128 kB:
// that takes 3 MB of stack. Without a limit for stacks glibc gives threads 2 MB, and the server
// would crash. Memory is taken only for what is used.
bool
start_thread(pthread_t &thread, void *argument) noexcept
{
    constexpr std::size_t kStack = std::size_t{16} << 20;
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0)
        return false;
    const bool started = pthread_attr_setstacksize(&attributes, kStack) == 0 &&
                         pthread_create(&thread, &attributes, run, argument) == 0;
    (void) pthread_attr_destroy(&attributes);
    return started;
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
    running_ = start_thread(thread_, argument);
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
    if (ends_within(thread_, timeout_ms))
        return true;
    // Nothing else may be waited for than a name service.
    session_->sender.lifeline().cut();
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
        std::unique_ptr<Message> message =
            Message::make(record, session_->settings.routing_key, why);
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
    // Connecting takes its times; what has come is heard at once.
    constexpr std::int64_t kListeningUs = 5000000;
    const std::int64_t connecting_us = std::int64_t{2000} * session_->settings.connect_timeout_ms;
    const std::int64_t limit_us = session_->mailbox.is_listening_long()
                                      ? std::min(kListeningUs, connecting_us)
                                      : connecting_us;
    if (running_)
        (void) session_->sender.lifeline().cut_if_held(limit_us, limit_us);
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
