// What redelivery hears of what it has sent, and what it makes of that.

#include "redelivery.h"

#include "bgworker/guard.h"

#include <utility>

namespace outbox
{

void
Redelivery::give_back(std::size_t slot) noexcept
{
    Sent &sent = sent_[slot];
    Line *line = lanes_.find(sent.row.lane);
    if (line != nullptr && line->in_flight > 0)
        line->in_flight--;
    const auto use = uses_.find(sent.partition);
    if (use != uses_.end() && --use->second.count == 0)
        uses_.erase(use);
    sent.used = false;
    free_.push_back(static_cast<std::uint16_t>(slot)); // reserved
    stirred_ = true;
}

void
Redelivery::delivered(std::uint64_t tag) noexcept
{
    const auto slot = static_cast<std::size_t>(tag);
    if (slot >= sent_.size() || !sent_[slot].used)
        return;
    Sent &sent = sent_[slot];
    published_++;
    published_at_ = GetCurrentTimestamp();
    stats_.published(sent.event, published_at_);
    if (batch_ > 0)
        stats_.batch(sent.event.memo.topic, std::exchange(batch_, 0));
    delivered_.push_back(sent.row.seq); // reserved: never more than are in flight
    Line *line = lanes_.find(sent.row.lane);
    if (line != nullptr && !sent.row.waiting)
        look_at_.push_back(sent.row.lane);
    if (!sent.topic.empty())
        revived_.push_back(std::move(sent.topic));
    sent.topic.clear();
    give_back(slot);
    // All of a group was accepted: more may go together.
    if (line != nullptr && line->in_flight == 0 && sent.row.waiting)
    {
        line->group = std::min(line->group * 2, Line::kWholeGroup);
        line->isolating = line->isolating && line->group < Line::kWholeGroup;
    }
}

// What is refused with its topic overtakes nothing: it was given up before it was sent. Of events
// that a broker refused together any may be the culprit; one that was refused alone is it.
void
Redelivery::failed(std::uint64_t tag, const kafka::Failure &failure) noexcept
{
    const auto slot = static_cast<std::size_t>(tag);
    const std::size_t together = std::exchange(batch_, 0);
    if (slot >= sent_.size() || !sent_[slot].used)
        return;
    Sent &sent = sent_[slot];
    const bool too_large = strcmp(failure.name, "MSG_SIZE_TOO_LARGE") == 0;
    const bool culprit = failure.cls == kafka::FailureClass::event && together == 1;
    if (culprit || failure.cls == kafka::FailureClass::topic)
        refused_.push_back({sent.row, failure, 0}); // reserved
    if (culprit && too_large)
    {
        oversized_events_++;
        oversized_batches_ -= std::exchange(oversized_suspected_, 0);
    }
    if (failure.cls == kafka::FailureClass::event && together > 1 && too_large)
    {
        oversized_batches_++;
        oversized_suspected_++;
    }
    Line *line = lanes_.find(sent.row.lane);
    if (line != nullptr)
    {
        if (failure.cls == kafka::FailureClass::event && !culprit && !line->halved)
        {
            line->isolating = line->halved = true;
            line->group = std::max<std::uint32_t>(std::min(line->group, line->in_flight) / 2, 1);
        }
        line->has_cursor = false; // what was not accepted goes out again
    }
    give_back(slot);
    if (line != nullptr && line->in_flight == 0)
        line->halved = false;
}

void
Redelivery::landed(Lane lane, std::int64_t seq, bool was_delivered) noexcept
{
    Line *line = lanes_.find(lane);
    afloat_--;
    if (line != nullptr && line->afloat > 0 && --line->afloat == 0)
        look_at_.push_back(lane); // reserved in set_afloat()
    if (was_delivered)
        delivered_.push_back(seq); // the same
    stirred_ = true;
}

void
Redelivery::note_refused(EventTables *tables, const FailurePolicy &policy)
{
    for (const Refused &refused : refused_)
    {
        EventRow event;
        EventLine line;
        kafka::Failure unreadable;
        const DeliveryRow &row = refused.row;
        if (find_event(tables, row.slot, row.xid, row.seq, GetCurrentTimestamp(), &event))
        {
            const bool readable = read_line(event, &line, &unreadable);
            (void) refuse(
                event, line,
                {readable ? refused.failure : unreadable, refused.partition, false, row.attempts},
                policy);
        }
        // It may have been the head of another lane than that in which it waits now.
        call_cpp([&] { look_at_.push_back(row.lane); });
    }
    refused_.clear();
}

void
Redelivery::note_revived()
{
    for (const std::string &topic : revived_)
        make_heads_due(topic, GetCurrentTimestamp());
    revived_.clear();
}

void
Redelivery::note_results(EventTables *tables, const FailurePolicy &policy)
{
    if (!delivered_.empty())
        remove_delivered(delivered_);
    note_refused(tables, policy);
    if (!revived_.empty() || !look_at_.empty())
        find_due_ = true;
    note_revived();
    look_at_lanes();
}

// A refused record kills the producer on purpose. What is late for good is dropped with it.
void
Redelivery::watch_dead(TimestampTz now, bool may_judge)
{
    constexpr int kLastReportsMs = 500;
    constexpr int kLateMs = 10000;
    kafka::Failure why;
    if (dead_since_ == 0 && producer_->fatal(why))
        dead_since_ = now;
    const bool may_drop = may_judge && dead_since_ == 0;
    for (std::size_t slot = 0; may_drop && slot < sent_.size(); slot++)
    {
        Sent &sent = sent_[slot];
        if (!sent.used || !TimestampDifferenceExceeds(sent.at, now, kLateMs))
            continue;
        if (refused_.size() == refused_.capacity())
            break;
        Refused late = {sent.row, {}, sent.partition};
        kafka::describe(late.failure, 0, "not acknowledged for %d seconds", kLateMs / 1000);
        late.failure.cls = kafka::FailureClass::topic;
        strlcpy(late.failure.name, "_TIMED_OUT", sizeof(late.failure.name));
        Line *line = lanes_.find(sent.row.lane);
        // Of a line the first counts for all.
        if (line == nullptr || !sent.row.waiting || !line->late)
            refused_.push_back(late); // reserved
        if (line != nullptr)
            line->late = sent.row.waiting;
        give_back(slot);
        dead_since_ = TimestampTzPlusMilliseconds(now, -kLastReportsMs);
    }
    if (dead_since_ == 0)
        return;
    if (producer_->outstanding() == 0 ||
        TimestampDifferenceExceeds(dead_since_, now, kLastReportsMs))
        give_up_in_flight();
}

bool
Redelivery::serve(TimestampTz now, bool may_judge)
{
    constexpr std::size_t kEventsPerServe = 1000;
    constexpr int kIdleMs = 30000;
    if (!producer_)
        return false;
    const bool any = producer_->serve(*this, kEventsPerServe) > 0;
    stirred_ = stirred_ || producer_->take_topics_changed();
    watch_dead(now, may_judge);
    if (lanes_.size() > 0 || in_flight() > 0 || due_at_ != 0)
        idle_since_ = now;
    else if (producer_ && TimestampDifferenceExceeds(idle_since_, now, kIdleMs))
        drop_producer(0);
    return any;
}

void
Redelivery::give_up_in_flight() noexcept
{
    drop_producer(0);
    for (std::size_t slot = 0; slot < sent_.size(); slot++)
        if (sent_[slot].used)
            give_back(slot);
    uses_.clear();
    for (auto &lane : lanes_.all())
    {
        lane.second.in_flight = 0;
        lane.second.has_cursor = false;
        lane.second.halved = false;
    }
    find_due_ = true;
    stirred_ = true;
}

void
Redelivery::drop_producer(int wait_ms) noexcept
{
    if (producer_)
        (void) producer_->close(wait_ms);
    producer_.reset();
    dead_since_ = 0;
}

bool
Redelivery::connect()
{
    constexpr int kPauseMs = 1000;
    if (producer_)
        return dead_since_ == 0;
    const TimestampTz now = GetCurrentTimestamp();
    if (setup_ == nullptr || connect_at_ > now)
        return false;
    kafka::Failure why;
    kafka::Producer *producer = nullptr;
    call_cpp([&] { producer = create_producer(*setup_, oversized_batches_, wake_fd_, why); });
    producer_.reset(producer);
    idle_since_ = now;
    if (producer == nullptr)
        connect_at_ = TimestampTzPlusMilliseconds(now, kPauseMs);
    return producer != nullptr;
}

} // namespace outbox
