#include "trouble.h"

#include <cstdio>
#include <utility>

namespace outbox
{

void
Trouble::fail(const Failure &failure) noexcept
{
    const Moment now = clock_.now();
    const std::int64_t pause = backoff_.fail(clock_.random());
    const std::int64_t wait = failure.retry_after_ms >= 0 ? failure.retry_after_ms : pause;
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
        begun_ = true;
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
    ended_ = true;
    failures_before_ = backoff_.failures();
    backoff_.succeed();
    next_attempt_at_ = {};
    news_ = {};
}

void
Trouble::log_news(Source &source) noexcept
{
    char text[sizeof last_.text + 256];
    if (std::exchange(begun_, false))
    {
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
    if (std::exchange(ended_, false))
    {
        (void) std::snprintf(text, sizeof text,
                             "outbox relay publishes again after %u failed attempts",
                             failures_before_);
        LogLine line;
        line.text = text;
        source.log(line);
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
