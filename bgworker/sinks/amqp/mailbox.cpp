#include "mailbox.h"

#include <cstdint>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

namespace outbox::amqp
{

Signal::Signal() noexcept : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

Signal::Signal(int fd) noexcept : fd_(fd == -1 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0)) {}

Signal::~Signal()
{
    if (fd_ != -1)
        (void) close(fd_);
}

// A full counter is as good as one more.
void
Signal::set() const noexcept
{
    const std::uint64_t one = 1;
    (void) !write(fd_, &one, sizeof one);
}

void
Signal::reset() const noexcept
{
    std::uint64_t count = 0;
    (void) !read(fd_, &count, sizeof count);
}

void
Mailbox::send(std::unique_ptr<Message> message) noexcept
{
    bool first = false;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        first = messages_.empty();
        messages_.push(std::move(message));
    }
    if (first)
        work_.set();
}

void
Mailbox::order(const Orders &orders) noexcept
{
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        orders_.stop = orders_.stop || orders.stop;
        orders_.give_up = orders_.give_up || orders.give_up;
    }
    if (orders.stop)
        stop_.set();
    work_.set();
}

Orders
Mailbox::take_work(MessageList &messages) noexcept
{
    work_.reset();
    const std::lock_guard<std::mutex> lock(mutex_);
    messages.append(std::move(messages_));
    return std::exchange(orders_, Orders());
}

void
Mailbox::report(MessageList &&messages) noexcept
{
    if (messages.empty())
        return;
    bool first = false;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        first = reports_.empty();
        reports_.append(std::move(messages));
    }
    if (first)
        news_.set();
}

MessageList
Mailbox::take_reports() noexcept
{
    news_.reset();
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::move(reports_);
}

void
Mailbox::report_trouble(const Failure &trouble) noexcept
{
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        troubles_[(first_trouble_ + trouble_count_) % kMaxTroubles] = trouble;
        if (trouble_count_ < kMaxTroubles)
            trouble_count_++;
        else
            first_trouble_ = (first_trouble_ + 1) % kMaxTroubles;
    }
    news_.set();
}

bool
Mailbox::take_trouble(Failure &trouble) noexcept
{
    const std::lock_guard<std::mutex> lock(mutex_);
    if (trouble_count_ == 0)
        return false;
    trouble = troubles_[first_trouble_];
    first_trouble_ = (first_trouble_ + 1) % kMaxTroubles;
    trouble_count_--;
    return true;
}

bool
Mailbox::is_open() noexcept
{
    const std::lock_guard<std::mutex> lock(mutex_);
    return open_;
}

void
Mailbox::set_open(bool open) noexcept
{
    const std::lock_guard<std::mutex> lock(mutex_);
    open_ = open;
}

void
Mailbox::fail(const Failure &why) noexcept
{
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        failed_ = true;
        failure_ = why;
        open_ = false;
    }
    news_.set();
}

bool
Mailbox::has_failed(Failure &why) noexcept
{
    const std::lock_guard<std::mutex> lock(mutex_);
    if (failed_)
        why = failure_;
    return failed_;
}

void
Mailbox::begin_long() noexcept
{
    if (!is_listening_long_.exchange(true))
        news_.set();
}

} // namespace outbox::amqp
