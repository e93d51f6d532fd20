#include "redelivery_sink.h"

#include <cstdio>
#include <cstring>

namespace outbox
{

bool
RedeliverySink::open(int oversized_batches)
{
    constexpr int kPauseMs = 1000;
    if (sink_)
        return dead_since_.is_never();
    const Steady now = clock_.steady();
    if (open_at_ > now)
        return false;
    Failure why;
    sink_ = destination_.open(Destination::Use::redelivery, oversized_batches, why);
    idle_since_ = opened_at_ = now;
    if (sink_)
        log_opened();
    else
    {
        open_at_ = plus_ms(now, kPauseMs);
        if (why.cls != FailureClass::none) // there is to be one
            log_failure(why);
    }
    return sink_ != nullptr;
}

// One line when it cannot be opened, or for another reason, and one when that ends.
void
RedeliverySink::log_opened() noexcept
{
    if (unconnected_.cls != FailureClass::none)
    {
        LogLine line;
        line.text = "outbox relay sends the events in outbox.deliveries again";
        source_.log(line);
    }
    unconnected_ = {};
}

void
RedeliverySink::log_failure(const Failure &why) noexcept
{
    last_error_ = why;
    last_error_at_ = clock_.time_of_day();
    if (std::strcmp(unconnected_.text, why.text) != 0)
    {
        char text[sizeof why.text + 128];
        (void) std::snprintf(text, sizeof text,
                             "outbox relay cannot send the events in outbox.deliveries: %s",
                             why.text);
        LogLine line;
        line.text = text;
        line.level = LogLine::Level::warning;
        line.of_connection = true;
        line.detail = "They wait, and so do later events of their keys, partitions and topics; the "
                      "relay tries again by itself.";
        line.hint = why.hint;
        source_.log(line);
    }
    unconnected_ = why;
}

void
RedeliverySink::close(int wait_ms) noexcept
{
    if (sink_)
        (void) sink_->close(wait_ms);
    sink_.reset();
    dead_since_ = {};
}

void
RedeliverySink::close_if_idle(Steady now, bool idle) noexcept
{
    constexpr int kIdleMs = 30000;
    if (!idle)
        idle_since_ = now;
    else if (sink_ && has_passed(idle_since_, now, kIdleMs))
        close(0);
}

bool
RedeliverySink::watch(Steady now) noexcept
{
    Failure why;
    if (dead_since_.is_never() && sink_->fatal(why))
        dead_since_ = now;
    return !dead_since_.is_never();
}

bool
RedeliverySink::is_over(Steady now) noexcept
{
    if (dead_since_.is_never() ||
        (sink_->outstanding() > 0 &&
         !has_passed(dead_since_, now, last_reports_.longest_wait_ms(dead_since_))))
        return false;
    last_reports_.note(dead_since_, now);
    return true;
}

void
RedeliverySink::report(EngineReport &report) const noexcept
{
    if (last_error_at_ == 0 || last_error_at_ < report.last_error_at)
        return;
    report.last_error_at = last_error_at_;
    constexpr int kMost = sizeof report.last_error - 64;
    (void) std::snprintf(report.last_error, sizeof report.last_error,
                         "events in outbox.deliveries cannot be sent: %.*s", kMost,
                         last_error_.text);
}

} // namespace outbox
