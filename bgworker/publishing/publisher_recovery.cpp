// What the publisher does after a failure: sets refused events aside, makes room for a new
// producer, and has what is left handed over again.

#include "bgworker/core/sooner.h"

#include "publisher.h"

#include "bgworker/records/event_record.h"

#include "bgworker/guard.h"

#include "extension/shared_state.h"

namespace outbox
{

namespace
{

// A dead producer reports what it gave up; longer than this nobody waits for it.
constexpr long kLastReportsMs = 500;

} // namespace

bool
Publisher::serve()
{
    const TimestampTz now = GetCurrentTimestamp();
    bool any = redelivery_.serve(now, !backing_off());
    if (!producer_)
        return any;
    constexpr std::size_t kEventsPerServe = 10000;
    any = producer_->serve(*this, kEventsPerServe) > 0 || any;
    held_again_ = producer_->take_topics_changed() || held_again_;
    kafka::Failure why;
    if (!dead_ && producer_->fatal(why))
    {
        dead_ = true;
        halted_since_ = now;
        halted_ = true;
        // A refused record kills the producer on purpose: nothing may overtake it.
        if (strcmp(why.name, "_GAPLESS_GUARANTEE") != 0)
            note_failure(why);
    }
    tell_log();
    return any;
}

// Fetches the event again and sets it aside.
void
Publisher::park_tag(std::uint64_t tag, const kafka::Failure &failure)
{
    EventRow event;
    Progress::InFlight flight;
    if (!fetch_again(tag, &event, &flight))
        return;
    EventLine line;
    kafka::Failure unreadable;
    const bool readable = read_line(event, &line, &unreadable);
    (void) redelivery_.refuse(
        event, line, {readable ? failure : unreadable, 0, true, 0, progress_.next_tag()}, policy_);
    (void) progress_.acknowledge(tag, false);
}

void
Publisher::park_refused_tags()
{
    if (refused_tags_.empty())
        return;
    const MemoryContext outer = MemoryContextSwitchTo(event_context_);
    for (const std::uint64_t tag : refused_tags_)
    {
        park_tag(tag, topic_refusal_);
        MemoryContextReset(event_context_);
    }
    (void) MemoryContextSwitchTo(outer);
    refused_tags_.clear();
}

// A batch is refused as a whole, so an event that was refused alone is the culprit. For the others
// redelivery finds it; until then their partition waits.
void
Publisher::settle_suspects()
{
    const MemoryContext outer = MemoryContextSwitchTo(event_context_);
    for (std::size_t begin = 0, end = 0; begin < suspects_.size(); begin = end)
    {
        EventRow event;
        Progress::InFlight flight;
        Progress::InFlight other;
        const bool found = progress_.find(suspects_[begin], flight);
        for (end = begin + 1; found && end < suspects_.size(); end++)
            if (!progress_.find(suspects_[end], other) || other.memo.lane != flight.memo.lane)
                break;
        if (end - begin == 1)
        {
            park_tag(suspects_[begin], suspicion_);
            continue;
        }
        const Lane lane = flight.memo.lane;
        for (std::size_t i = begin; i < end; i++)
        {
            if (!fetch_again(suspects_[i], &event, &flight))
                continue;
            EventLine line;
            kafka::Failure unreadable; // redelivery tells of it
            (void) read_line(event, &line, &unreadable);
            redelivery_.suspect(event, line, lane);
            (void) progress_.acknowledge(suspects_[i], false);
            MemoryContextReset(event_context_);
        }
        redelivery_.isolate(lane, end - begin, progress_.next_tag());
        if (strcmp(suspicion_.name, "MSG_SIZE_TOO_LARGE") == 0)
            oversized_batches_++;
    }
    (void) MemoryContextSwitchTo(outer);
    suspects_.clear();
}

// Returns false when a table is locked: try again later.
bool
Publisher::settle_refusals()
{
    if (refused_tags_.empty() && suspects_.empty())
        return true;
    if (begin() != OpenResult::opened)
        return false;
    park_refused_tags();
    settle_suspects();
    end();
    return true;
}

// While something is in flight, librdkafka tries at intervals like ours, tells only of the first
// failure, and a delivery ends the trouble. With nothing in flight Kafka is asked.
long
Publisher::watch_attempts(TimestampTz now)
{
    constexpr int kAskMs = 100;
    if (next_attempt_at_ <= now)
    {
        if (outstanding() == 0 && producer_ && producer_->reachable(kAskMs))
            note_success();
        else
            note_failure(last_failure_);
    }
    return backing_off() ? Max(10L, TimestampDifferenceMilliseconds(now, next_attempt_at_)) : -1;
}

long
Publisher::recover(TimestampTz now)
{
    constexpr long kWatchMs = 100;
    if (!halted_ && producer_)
    {
        watch_stuck(now);
        watch_routes(now);
    }
    if (!halted_)
    {
        const long wait = backing_off() ? watch_attempts(now) : -1;
        return progress_.in_flight() > 0 || awaits_routes() ? sooner(wait, kWatchMs) : wait;
    }
    const long waited = TimestampDifferenceMilliseconds(halted_since_, now);
    if (outstanding() > 0 && !(dead_ && waited >= kLastReportsMs))
        return dead_ ? kLastReportsMs - waited : 1000; // its reports wake us
    const long left = TimestampDifferenceMilliseconds(now, next_attempt_at_);
    if (backing_off() && left > 0)
        return left;
    constexpr long kLockedMs = 100;
    if (!settle_refusals())
        return kLockedMs;
    if (dead_)
    {
        (void) producer_->close(0); // it ends by itself
        producer_.reset();
    }
    dead_ = false;
    sink();
    resend();
    return 0;
}

} // namespace outbox
