// What the publisher does after a failure: sets refused events aside, goes back to the acknowledged
// prefix, makes room for a new producer.

#include "publisher.h"

#include "bgworker/records/event_record.h"

#include "bgworker/guard.h"

#include "extension/shared_state.h"

namespace outbox
{

namespace
{

// A dead producer reports what it gave up; longer than this nobody waits for it.
constexpr long kLastReportsMs = 2000;

} // namespace

bool
Publisher::serve()
{
    if (!producer_)
        return false;
    constexpr std::size_t kEventsPerServe = 10000;
    const bool any = producer_->serve(*this, kEventsPerServe) > 0;
    kafka::Failure why;
    if (!dead_ && producer_->fatal(why))
    {
        dead_ = true;
        dead_since_ = GetCurrentTimestamp();
        halted_ = true;
        if (!kafka::is_consequence(why))
            note_failure(why);
    }
    tell_log();
    return any;
}

// Fetches the event again and sets it aside.
void
Publisher::park_tag(std::uint64_t tag, const kafka::Failure &failure)
{
    Progress::InFlight flight;
    if (!progress_.find(tag, flight))
        return;
    const EventKey key = {flight.seq, flight.locator, flight.xid};
    EventRow event;
    EventLine line;
    kafka::Failure unreadable;
    if (fetch_event(&tables_, key, GetCurrentTimestamp(), &event))
    {
        const bool readable = read_line(event, &line, &unreadable);
        redelivery_.refuse(event, line, true, 0, readable ? failure : unreadable, policy_);
    }
    aside_.push_back(tag); // reserved
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

// A topic may take less in one batch than librdkafka sends; or a single event was too large.
void
Publisher::note_batch_size(std::size_t refused)
{
    if (refused == 1)
    {
        oversized_batches_ -= oversized_suspected_;
        oversized_suspected_ = 0;
        return;
    }
    const kafka::Failure &why = suspects_ > 0 ? refusal_ : redelivery_.suspicion();
    if (strcmp(why.name, "MSG_SIZE_TOO_LARGE") != 0)
        return;
    oversized_batches_++;
    oversized_suspected_++;
}

// A batch is refused as a whole, so an event that was refused alone is the culprit.
void
Publisher::settle_suspects(std::size_t refused)
{
    if (refused > 1 || isolation_.active())
        isolation_.refused(refused, suspects_reach_);
    if (refused == 1)
        park_tag(first_suspect_, refusal_);
}

// Returns false when a table is locked: try again later.
bool
Publisher::settle_refusals()
{
    const std::size_t refused = suspects_ + redelivery_.suspects();
    if (refused_tags_.empty() && refused == 0)
        return true;
    if (begin() != OpenResult::opened)
        return false;
    // Lines that were on their way stand before what was refused behind them.
    if (refused > 0)
        note_batch_size(refused);
    redelivery_.judge_suspects(refused == 1);
    redelivery_.lose_in_flight(&tables_, policy_);
    park_refused_tags();
    if (suspects_ > 0)
        settle_suspects(refused);
    end();
    suspects_ = 0;
    suspects_reach_ = 0;
    sent_in_group_ = 0;
    return true;
}

// The producer ends with that: each broker's thread purges when it comes to it, and could take the
// first of what is handed over again, behind which later events would arrive.
void
Publisher::take_all_back(TimestampTz now)
{
    halted_ = true;
    dead_ = true;
    dead_since_ = now;
    producer_->purge();
}

// librdkafka keeps records of a topic for ever when Kafka refuses to describe it, and says nothing.
// The position stays behind such a record, so it is taken back and its topic counts as refused.
void
Publisher::give_up_stuck(TimestampTz now)
{
    constexpr int kStuckMs = 30000;
    // While Kafka is out of reach, everything waits.
    if (!backing_off() && redelivery_.give_up_attempt(now))
    {
        take_all_back(now);
        return;
    }
    if (progress_.in_flight() == 0 || progress_.first_tag() != first_tag_)
    {
        first_tag_ = progress_.first_tag();
        first_since_ = now;
        return;
    }
    if (!TimestampDifferenceExceeds(first_since_, now, kStuckMs))
        return;
    // When nothing gets through, it is not the topic; unless nothing else is sent at present.
    constexpr int kAskMs = 100;
    const bool others_flow = last_published_at_ > first_since_;
    if (!others_flow && !(awaits_routes() && !backing_off() && producer_->reachable(kAskMs)))
        return;
    kafka::describe(topic_refusal_, 0, "not acknowledged for %d seconds while other events were",
                    kStuckMs / 1000);
    topic_refusal_.cls = kafka::FailureClass::topic;
    strlcpy(topic_refusal_.name, "_TIMED_OUT", sizeof(topic_refusal_.name));
    refused_tags_.push_back(first_tag_); // reserved
    take_all_back(now);
}

// Everything behind the acknowledged prefix is read again, and handed over again unless it was
// acknowledged.
void
Publisher::rewind()
{
    if (progress_.behind_prefix() > 0)
        oldest_waiting_ = progress_.oldest_created_at();
    base_then_ = backlog_base();
    prefix_then_ = progress_.acknowledged_prefix();
    went_back_ = true;
    progress_.visit_in_flight([&](const Memo &memo) { stats_.retried(memo.topic); });
    call_cpp(
        [&]
        {
            progress_.visit_acknowledged([&](std::int64_t seq, bool published)
                                         { done_[seq] = published; });
            const Position position = progress_.position();
            progress_.reset(position);
            read_up_to_ = position.to;
            keys_.open(position.from, position.to, position.last_seq, kRingSlots);
            window_open_ = progress_.windows() > 0;
        });
    ask_standbys_ = true;
    redelivery_.forget_in_flight();
    halted_ = false;
}

// In ms. A clock that is set back puts off nothing.
long
Publisher::pause_left(TimestampTz now) const noexcept
{
    const long left = TimestampDifferenceMilliseconds(now, next_attempt_at_);
    return left > policy_.backoff_max_ms ? 0 : left;
}

// While something is in flight, librdkafka tries at intervals like ours, tells only of the first
// failure, and a delivery ends the trouble. With nothing in flight Kafka is asked.
long
Publisher::watch_attempts(TimestampTz now)
{
    constexpr int kAskMs = 100;
    if (pause_left(now) == 0)
    {
        if (outstanding() == 0 && producer_ && producer_->reachable(kAskMs))
            note_success();
        else
            note_failure(last_failure_);
    }
    return backing_off() ? Max(10L, pause_left(now)) : -1;
}

long
Publisher::recover(TimestampTz now)
{
    if (!halted_ && producer_)
        give_up_stuck(now);
    if (!halted_)
        return backing_off() ? watch_attempts(now) : -1;
    if (outstanding() > 0 &&
        !(dead_ && TimestampDifferenceExceeds(dead_since_, now, kLastReportsMs)))
        return 1000; // its reports wake us
    const long left = pause_left(now);
    if (backing_off() && left > 0)
        return left;
    constexpr long kLockedMs = 100;
    if (!settle_refusals())
        return kLockedMs;
    if (dead_)
        producer_.reset();
    dead_ = false;
    rewind();
    return 0;
}

} // namespace outbox
