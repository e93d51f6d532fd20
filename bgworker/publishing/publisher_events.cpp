// What the publisher hears from Kafka: acknowledgements, failures, log lines.

#include <utility>

#include "publisher.h"

#include "extension/shared_state.h"

namespace outbox
{

namespace
{

constexpr const char *kAllBrokersDown = "_ALL_BROKERS_DOWN";

} // namespace

void
Publisher::batch(std::size_t records) noexcept
{
    batch_ = records;
    heard_at_ = GetCurrentTimestamp();
}

void
Publisher::delivered(std::uint64_t tag) noexcept
{
    Acknowledged event;
    bool known = true;
    if ((tag & kRedeliveryTag) != 0)
    {
        known = redelivery_.delivered(tag, &event);
        redelivered_++;
    }
    else if (!progress_.acknowledge(tag, true, &event))
        return; // of the time before a rewind
    if (known)
        stats_.published(event, heard_at_);
    if (known && batch_ > 0)
        stats_.batch(event.memo.topic, std::exchange(batch_, 0));
    last_published_at_ = heard_at_;
    if (backing_off() && !halted_)
        note_success();
}

// Whatever the reason, the event does not count as published: its tag stays unacknowledged until it
// is set aside or handed over again.
void
Publisher::failed(std::uint64_t tag, const kafka::Failure &failure) noexcept
{
    Progress::InFlight flight;
    batch_ = 0;
    if ((tag & kRedeliveryTag) != 0)
        redelivery_.failed(tag, failure);
    else if (progress_.find(tag, flight))
    {
        if (failure.cls == kafka::FailureClass::topic)
        {
            refused_tags_.push_back(tag); // reserved: never more than are in flight
            topic_refusal_ = failure;
            return;
        }
        if (failure.cls == kafka::FailureClass::event)
        {
            if (suspects_++ == 0)
            {
                first_suspect_ = tag;
                refusal_ = failure;
            }
            suspects_reach_ = flight.distance;
        }
        else if (!halted_ && !kafka::is_consequence(failure))
            note_failure(failure);
    }
    halted_ = true;
}

void
Publisher::trouble(const kafka::Failure &failure) noexcept
{
    if (strcmp(failure.name, kAllBrokersDown) != 0)
    {
        trouble_ = failure;
        return;
    }
    // The text of what happened to a connection tells more than the sum.
    note_failure(trouble_.name[0] != '\0' ? trouble_ : failure);
}

void
Publisher::log(int level, const char *facility, const char *text) noexcept
{
    if (log_count_ == kMaxLogLines)
    {
        log_dropped_++;
        return;
    }
    LogLine &line = log_lines_[log_count_++];
    line.level = level;
    snprintf(line.text, sizeof(line.text), "%s: %s", facility, text);
}

void
Publisher::note_failure(const kafka::Failure &failure) noexcept
{
    const TimestampTz now = GetCurrentTimestamp();
    const int64 wait = backoff_.fail(random_bits());
    last_failure_ = failure;
    last_failure_at_ = now;
    next_attempt_at_ = TimestampTzPlusMilliseconds(now, wait);
    if (backoff_.failures() == 1)
        failure_untold_ = true;
}

void
Publisher::note_success() noexcept
{
    recovery_untold_ = true;
    failures_before_recovery_ = backoff_.failures();
    backoff_.succeed();
    next_attempt_at_ = 0;
    trouble_ = {};
}

// One line when trouble begins and one when it ends; librdkafka's own lines are for debugging.
void
Publisher::tell_log()
{
    for (int i = 0; i < log_count_; i++)
        ereport(DEBUG1, (errmsg_internal("outbox relay: librdkafka: %s", log_lines_[i].text)));
    if (log_dropped_ > 0)
        ereport(DEBUG1,
                (errmsg_internal("outbox relay: %d lines of librdkafka dropped", log_dropped_)));
    log_count_ = 0;
    log_dropped_ = 0;

    if (failure_untold_)
        ereport(
            WARNING,
            (errcode(ERRCODE_CONNECTION_EXCEPTION),
             errmsg("outbox relay cannot publish: %s: %s", last_failure_.name, last_failure_.text),
             errdetail("Events wait in the database; the relay tries again by itself."),
             last_failure_.hint[0] != '\0' ? errhint("%s", last_failure_.hint) : 0));
    if (recovery_untold_)
        ereport(LOG, (errmsg("outbox relay publishes again after %u failed attempts",
                             failures_before_recovery_)));
    failure_untold_ = false;
    recovery_untold_ = false;
}

} // namespace outbox
