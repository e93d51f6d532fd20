#include "trouble.h"

#include <cstdio>

namespace outbox
{

void
Trouble::fail(const Failure &failure) noexcept
{
    const Moment now = clock_.now();
    const std::int64_t pause = backoff_.fail(clock_.random());
    asked_ms_ = failure.retry_after_ms;
    const std::int64_t wait = asked_ms_ >= 0 ? asked_ms_ : pause;
    if (&failure != &last_)
    {
        last_ = failure;
        of_connection_ = false;
    }
    quiet_attempts_ = 0;
    last_at_ = now.time;
    next_attempt_at_ = plus_ms(now.steady, wait);
    shown_attempt_at_ = plus_ms(now.time, wait);
    if (backoff_.failures() == 1)
        told_.begin();
}

// The text of what happened to a connection says more than the sum.
void
Trouble::hear(const Failure &news) noexcept
{
    if (!news.summary)
    {
        news_ = news;
        return;
    }
    fail(news_.name[0] != '\0' ? news_ : news);
    of_connection_ = true;
}

void
Trouble::succeed() noexcept
{
    told_.end();
    failures_before_ = backoff_.failures();
    backoff_.succeed();
    next_attempt_at_ = {};
    news_ = {};
}

void
Trouble::log_begin(Source &source) const noexcept
{
    char text[sizeof last_.text + 256];
    (void) std::snprintf(text, sizeof text, "outbox relay cannot publish: %s: %s", last_.name,
                         last_.text);
    LogLine line;
    line.level = LogLine::Level::warning;
    line.of_connection = true;
    line.text = text;
    line.detail = "Events wait in the database; the relay tries again by itself.";
    line.hint = last_.hint;
    source.log(line);
}

void
Trouble::log_end(Source &source) const noexcept
{
    char text[256];
    (void) std::snprintf(text, sizeof text, "outbox relay publishes again after %u failed attempts",
                         failures_before_);
    LogLine line;
    line.text = text;
    source.log(line);
}

void
Trouble::log_news(Source &source) noexcept
{
    if (!told_.has_news())
        return;
    const Steady now = clock_.now().steady;
    for (;;)
        switch (told_.next(now))
        {
        case TroubleTold::Say::begins:
            log_begin(source);
            break;
        case TroubleTold::Say::ends:
            log_end(source);
            break;
        case TroubleTold::Say::nothing:
            return;
        }
}

void
Trouble::report(EngineReport &report) const noexcept
{
    report.consecutive_failures = backoff_.failures();
    report.next_attempt_at = is_failing() ? shown_attempt_at_ : 0;
    report.last_error_at = last_at_;
    constexpr int kMost = sizeof report.last_error - sizeof last_.name - 2;
    if (last_at_ != 0)
        (void) std::snprintf(report.last_error, sizeof report.last_error, "%s: %.*s", last_.name,
                             kMost, last_.text);
}

} // namespace outbox
