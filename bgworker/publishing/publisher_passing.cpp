// Whether an event may go to Kafka, has to wait in memory for a moment, or is set aside; and what
// was handed over before and has to go again.
//
// An event that was read has a tag, and until that is acknowledged it is
//   queued     in the producer, on its way to its partition;
//   held       in memory: nothing is known of its topic yet, its partition's leader is being found,
//              or the line of its lane ends just now. Later events of it are held behind it;
//   to resend  after a producer has died: in the order of the tags, before anything new.
// One that is set aside counts as acknowledged. It is afloat if the producer has it all the same.

#include "publisher.h"

#include "bgworker/records/event_record.h"

#include "bgworker/guard.h"

#include <algorithm>

namespace outbox
{

namespace
{

constexpr int kEventsPerStep = 2048;
constexpr long kStepMs = 10;
constexpr long kHeldMs = 20;

} // namespace

class Publisher::Gate final : public kafka::PartitionGate
{
public:
    Gate(const Publisher &owner, const Passing &passing) noexcept : owner_(owner), passing_(passing)
    {
    }

    bool may_pass(std::int32_t partition) const noexcept override
    {
        const std::string_view topic = passing_.line.topic;
        partition_ = partition_lane(topic, partition);
        return (owner_.redelivery_.is_empty() && owner_.held_.is_empty()) ||
               (is_open(partition_) && is_open(key_lane(topic, passing_.line.key)));
    }

    bool is_open(Lane lane) const noexcept
    {
        stopped_by_ = lane;
        wait_ = owner_.redelivery_.wait_of(lane);
        if (wait_ == Redelivery::Wait::none && lane != passing_.from && owner_.held_.has(lane))
            wait_ = Redelivery::Wait::hold;
        return wait_ == Redelivery::Wait::none;
    }

    Lane partition() const noexcept { return partition_; }
    Lane stopped_by() const noexcept { return stopped_by_; }
    bool is_to_hold() const noexcept { return wait_ == Redelivery::Wait::hold; }

private:
    const Publisher &owner_;
    const Passing &passing_;
    mutable Lane partition_ = 0;
    mutable Lane stopped_by_ = 0;
    mutable Redelivery::Wait wait_ = Redelivery::Wait::none;
};

Publisher::HandOver
Publisher::hold(const Passing &passing, Lane lane, bool for_topic)
{
    if (lane == passing.from)
        return HandOver::held;
    call_cpp([&] { held_.add(lane, passing.tag, for_topic); });
    return HandOver::done;
}

Publisher::HandOver
Publisher::park(const Passing &passing, Lane lane)
{
    redelivery_.park(passing.event, passing.line, lane);
    (void) progress_.acknowledge(passing.tag, false);
    return HandOver::done;
}

// Earlier events of its lane may still be on their way: all before it is acknowledged first.
Publisher::HandOver
Publisher::refuse(const Passing &passing, const kafka::Failure &why, Lane partition)
{
    (void) redelivery_.refuse(passing.event, passing.line,
                              {why, partition, true, 0, progress_.next_tag()}, policy_);
    (void) progress_.acknowledge(passing.tag, false);
    return HandOver::done;
}

Publisher::HandOver
Publisher::pass(Passing &passing)
{
    const Gate gate(*this, passing);
    const Lane whole = topic_lane(passing.line.topic);
    if ((!redelivery_.is_empty() || !held_.is_empty()) && !gate.is_open(whole))
        return gate.is_to_hold() ? hold(passing, whole, false) : park(passing, whole);

    kafka::Offer offer = {gate};
    kafka::Failure why;
    passing.record.tag = passing.tag;
    switch (producer_->offer(passing.record, offer, why))
    {
    case kafka::ProduceResult::queued:
        progress_.set_sent(passing.tag, sending_at_, gate.partition());
        return HandOver::done;
    case kafka::ProduceResult::queue_full:
        return HandOver::full;
    case kafka::ProduceResult::not_yet:
        return hold(passing, offer.no_leader ? gate.partition() : whole, !offer.no_leader);
    case kafka::ProduceResult::stopped:
        return gate.is_to_hold() ? hold(passing, gate.stopped_by(), false)
                                 : park(passing, gate.stopped_by());
    case kafka::ProduceResult::failed:
        break;
    }
    if (why.cls == kafka::FailureClass::event || why.cls == kafka::FailureClass::topic)
        return refuse(passing, why, offer.no_leader ? gate.partition() : 0);
    note_failure(why);
    halt();
    return HandOver::halted;
}

// False for an event that is not in flight, or whose row is gone: that counts as done.
bool
Publisher::fetch_again(std::uint64_t tag, EventRow *event, Progress::InFlight *flight)
{
    if (!progress_.find(tag, *flight))
        return false;
    const EventKey key = {flight->seq, flight->locator, flight->xid};
    if (fetch_event(&tables_, key, GetCurrentTimestamp(), event))
        return true;
    (void) progress_.acknowledge(tag, false);
    return false;
}

Publisher::HandOver
Publisher::hand_over_again(std::uint64_t tag, Lane from, TimestampTz now)
{
    EventRow event;
    Progress::InFlight flight;
    if (!fetch_again(tag, &event, &flight))
        return HandOver::done;
    EventLine line;
    kafka::Record record;
    kafka::Failure why;
    const bool built = read_record(event, now, &line, &record, &why);
    Passing passing = {event, line, record, tag, from};
    return built ? pass(passing) : refuse(passing, why, 0);
}

// What the producer that has died had not acknowledged goes to the next one, in the same order.
void
Publisher::resend()
{
    const TimestampTz now = GetCurrentTimestamp();
    progress_.visit(
        [&](std::uint64_t tag, const Memo &memo, bool acknowledged)
        {
            if (acknowledged)
                return;
            if (memo.lane != 0)
                stats_.retried(memo.topic);
            progress_.set_sent(tag, now, 0);
        });
    held_.clear();
    resend_at_ = progress_.first_tag();
    resend_end_ = progress_.next_tag();
    first_since_ = now;
    halted_ = false;
}

// Returns true when there is more to do at once.
bool
Publisher::resend_some(TimestampTz now)
{
    resend_at_ = Max(resend_at_, progress_.first_tag());
    for (int i = 0; i < kEventsPerStep && resend_at_ < resend_end_; i++)
    {
        const HandOver result = hand_over_again(resend_at_, 0, now);
        MemoryContextReset(event_context_);
        if (result != HandOver::done)
            return false;
        resend_at_++;
        if (i % 64 == 63 && TimestampDifferenceExceeds(now, GetCurrentTimestamp(), kStepMs))
            return true;
    }
    resend_at_ = Max(resend_at_, Min(progress_.first_tag(), resend_end_));
    return resend_at_ < resend_end_;
}

bool
Publisher::has_news_for_held(TimestampTz now) const noexcept
{
    return !held_.is_empty() && (held_again_ || TimestampDifferenceExceeds(held_at_, now, kHeldMs));
}

bool
Publisher::pass_held(TimestampTz now)
{
    const bool topics = std::exchange(held_again_, false);
    held_at_ = now;
    scratch_.clear();
    call_cpp(
        [&]
        {
            for (const auto &item : held_.lines())
                if (topics || !item.second.for_topic)
                    scratch_.push_back(item.first);
            std::sort(scratch_.begin(), scratch_.end());
            std::rotate(scratch_.begin(),
                        std::lower_bound(scratch_.begin(), scratch_.end(), next_held_),
                        scratch_.end());
        });
    for (const Lane lane : scratch_)
    {
        for (bool more = held_.has(lane); more;)
        {
            const std::uint64_t tag = held_.first(lane);
            const HandOver result = hand_over_again(tag, lane, now);
            MemoryContextReset(event_context_);
            if (result == HandOver::halted)
                return false;
            more = result == HandOver::done && held_.drop_first(lane);
            if (result == HandOver::full ||
                TimestampDifferenceExceeds(now, GetCurrentTimestamp(), kStepMs))
            {
                next_held_ = lane;
                held_again_ = topics;
                return result != HandOver::full;
            }
        }
    }
    return false;
}

bool
Publisher::has_chores(TimestampTz now) const noexcept
{
    return producer_ && (resend_at_ != resend_end_ || !refused_tags_.empty() || !stuck_.empty() ||
                         has_news_for_held(now));
}

// Returns true when there is more to do at once.
bool
Publisher::do_chores(TimestampTz now)
{
    if (!producer_)
        return false;
    const MemoryContext outer = MemoryContextSwitchTo(event_context_);
    sending_at_ = now;
    park_refused_tags();
    bool more = !stuck_.empty() && set_stuck_afloat(now);
    if (resend_at_ != resend_end_ && !paused())
        more = resend_some(now) || more;
    else if (has_news_for_held(now) && !paused())
        more = pass_held(now) || more;
    (void) MemoryContextSwitchTo(outer);
    return more;
}

} // namespace outbox
