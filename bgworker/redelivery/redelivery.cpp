#include "bgworker/core/backoff.h"

#include "redelivery.h"

#include "bgworker/guard.h"

namespace outbox
{

namespace
{

// One line for an event that is given up, and one when a whole topic begins to be refused.
void
tell_refusal(const ParkedEvent &event, const kafka::Failure &failure, bool given_up, bool blocking)
{
    const char *topic = pnstrdup(event.topic.data(), event.topic.size());
    if (!given_up)
        ereport(WARNING, (errmsg("outbox: Kafka takes no events for topic \"%s\": %s: %s", topic,
                                 failure.name, failure.text),
                          errdetail("Its events wait and are tried again; other topics go on.")));
    else
        ereport(
            WARNING,
            (errmsg("outbox: event %s for topic \"%s\" has failed: %s: %s",
                    DatumGetCString(DirectFunctionCall1(uuid_out, UUIDPGetDatum(event.event_id))),
                    topic, failure.name, failure.text),
             blocking ? errdetail("Later events of its key wait behind it.") : 0,
             errhint("See outbox.dead_letters; settle it with outbox.retry() or "
                     "outbox.discard().")));
}

} // namespace

TimestampTz
next_attempt_after(int attempts, const FailurePolicy &policy)
{
    Backoff backoff;
    backoff.configure(policy.backoff_initial_ms, policy.backoff_max_ms);
    int64 wait = 0;
    for (int i = 0; i < Min(attempts, 64); i++)
        wait = backoff.fail(random_bits());
    return TimestampTzPlusMilliseconds(GetCurrentTimestamp(), wait);
}

Redelivery::Redelivery(Stats &stats) : stats_(stats)
{
    sent_.reserve(kMaxInFlight);
    delivered_.reserve(kMaxInFlight);
    removing_.reserve(kMaxInFlight);
}

// A lane stays known until its line is empty; what changes here is whether something blocks it.
void
Redelivery::load()
{
    scratch_.clear();
    blocked_lanes(&scratch_);
    call_cpp(
        [&]
        {
            std::vector<Lane> known;
            for (const auto &lane : lanes_.all())
                known.push_back(lane.first);
            for (const Lane lane : known)
                if (lanes_.state(lane) == Lanes::State::blocked)
                    lanes_.release(lane);
            for (const Lane lane : scratch_)
                lanes_.block(lane);
        });
    // What the relay settles by itself, it does not read again.
    if (reload_lines_ || reload_settled_)
        settled_up_to_ = last_settled_seq();
    reload_settled_ = false;
    if (reload_lines_)
    {
        scratch_.clear();
        waiting_lanes(&scratch_);
        call_cpp(
            [&]
            {
                for (const Lane lane : scratch_)
                    if (lanes_.state(lane) == Lanes::State::clear)
                        lanes_.release(lane);
            });
        reload_lines_ = false;
    }
    due_at_ = next_due_at();
    if (due_at_ != 0)
        due_at_ = Max(due_at_, not_due_before_);
    paused_ = is_paused();
    reload_ = false;
}

bool
Redelivery::must_wait(std::string_view topic, std::string_view key, Lane *lane) const noexcept
{
    if (lanes_.size() == 0)
        return false;
    *lane = topic_lane(topic);
    if (lanes_.state(*lane) != Lanes::State::clear)
        return true;
    *lane = key_lane(topic, key);
    return lanes_.state(*lane) != Lanes::State::clear;
}

bool
Redelivery::wants_quiet(TimestampTz now) const noexcept
{
    return due_at_ != 0 && due_at_ <= now && !reload_;
}

void
Redelivery::give_up_quiet(TimestampTz now) noexcept
{
    constexpr int64 kLaterMs = 10000;
    due_at_ = TimestampTzPlusMilliseconds(now, kLaterMs);
}

bool
Redelivery::has_work() const noexcept
{
    return reload_ || refused_ || !delivered_.empty() ||
           (lanes_.releasing() > 0 && has_room() && !attempting_ && !paused_);
}

// Events in flight have tags in the order of sending; finished ones leave from the front.
bool
Redelivery::delivered(std::uint64_t tag, Acknowledged *event) noexcept
{
    const std::uint64_t index = tag - first_tag_;
    if (index >= sent_.size() || sent_[index].done)
        return false;
    sent_[index].done = true;
    *event = sent_[index].event;
    delivered_.push_back(sent_[index].row.seq); // reserved: never more than are in flight
    if (!sent_[index].row.waiting)
        attempting_ = false;
    return true;
}

void
Redelivery::failed(std::uint64_t tag, const kafka::Failure &failure) noexcept
{
    const std::uint64_t index = tag - first_tag_;
    if (index >= sent_.size() || sent_[index].done)
        return;
    if (failure.cls == kafka::FailureClass::topic)
        note_culprit(sent_[index].row, failure);
    else if (failure.cls == kafka::FailureClass::event && suspects_++ == 0)
    {
        suspect_ = sent_[index].row;
        suspicion_ = failure;
    }
}

// One at a time: another one is refused again.
void
Redelivery::note_culprit(const DeliveryRow &row, const kafka::Failure &failure) noexcept
{
    if (refused_)
        return;
    refused_ = true;
    refused_row_ = row;
    refusal_ = failure;
}

void
Redelivery::judge_suspects(bool known) noexcept
{
    if (suspects_ > 0 && known)
        note_culprit(suspect_, suspicion_);
    else if (suspects_ > 0)
        limit_ = std::max<std::size_t>(std::min(limit_, suspects_) / 2, 1);
    suspects_ = 0;
}

void
Redelivery::forget_in_flight() noexcept
{
    first_tag_ += sent_.size();
    sent_.clear();
    sent_up_to_.clear();
    attempting_ = false;
    // A lane is not known any more once all of its line is on its way.
    reload_lines_ = true;
    reload_ = true;
}

void
Redelivery::lose_in_flight(EventTables *tables, const FailurePolicy &policy)
{
    note_results(tables, policy);
    forget_in_flight();
    load();
}

bool
Redelivery::committed() noexcept
{
    const bool any = noting_refusal_ || !removing_.empty();
    removing_.clear();
    noting_refusal_ = false;
    return any;
}

void
Redelivery::rolled_back()
{
    for (const std::int64_t seq : removing_)
        if (!is_delivered(seq))
            delivered_.push_back(seq); // never more than were in flight
    refused_ = refused_ || noting_refusal_;
    (void) committed();
    sent_up_to_.clear();
    reload_lines_ = true;
    reload_ = true;
}

bool
Redelivery::is_settled(std::int64_t seq, const pg_uuid_t &event_id) const
{
    return seq <= settled_up_to_ && has_settled_row(seq, event_id);
}

void
Redelivery::note_refusal(const DeliveryRow &row, EventTables *tables, const kafka::Failure &failure,
                         const FailurePolicy &policy)
{
    EventRow event;
    EventLine line;
    kafka::Failure unreadable;
    if (find_event(tables, row.slot, row.xid, row.seq, GetCurrentTimestamp(), &event))
    {
        const bool readable = read_line(event, &line, &unreadable);
        refuse(event, line, false, row.attempts, readable ? failure : unreadable, policy);
    }
    reload_ = true;
}

void
Redelivery::refuse(const EventRow &event, const EventLine &line, bool from_stream,
                   int attempts_before, const kafka::Failure &failure, const FailurePolicy &policy)
{
    const std::uint16_t counted_as = stats_.topic(line.topic);
    stats_.refused(counted_as);
    // A topic that is refused as a whole is retried for ever: its events are not at fault.
    const bool whole_topic = failure.cls == kafka::FailureClass::topic;
    const Lane lane = whole_topic ? topic_lane(line.topic) : key_lane(line.topic, line.key);
    const bool blocking = whole_topic || blocks_key(line, policy.block);
    Lane behind = lane;
    const bool waits = from_stream && must_wait(line.topic, line.key, &behind);
    const ParkedEvent parked = {event.seq, event.xid,  event.slot, &event.id,
                                behind,    line.topic, line.key};
    if (waits)
    {
        park_waiting(parked);
        note_joined(behind, event.seq);
        return;
    }
    const bool given_up = park_refused(parked, failure, blocking,
                                       next_attempt_after(Min(attempts_before, 64) + 1, policy),
                                       whole_topic ? 0 : policy.max_attempts);
    if (given_up)
        stats_.failed(counted_as);
    if (given_up || (whole_topic && attempts_before == 0))
        tell_refusal(parked, failure, given_up, blocking);
    if (blocking)
        call_cpp([&] { lanes_.block(lane); });
    reload_ = true;
}

void
Redelivery::park(const EventRow &event, const EventLine &line, Lane lane)
{
    park_waiting({event.seq, event.xid, event.slot, &event.id, lane, line.topic, line.key});
    note_joined(lane, event.seq);
}

void
Redelivery::note_joined(Lane lane, std::int64_t seq) noexcept
{
    const auto cursor = sent_up_to_.find(lane);
    if (cursor != sent_up_to_.end() && seq <= cursor->second)
        cursor->second = seq - 1;
}

void
Redelivery::note_results(EventTables *tables, const FailurePolicy &policy)
{
    if (!delivered_.empty())
    {
        const size_t before = delivered_.size();
        removing_ = delivered_; // reserved
        remove_delivered(delivered_);
        reload_ = reload_ || delivered_.size() < before;
    }
    size_t done = 0;
    while (done < sent_.size() && sent_[done].done)
        done++;
    first_tag_ += done;
    sent_.erase(sent_.begin(), sent_.begin() + static_cast<std::ptrdiff_t>(done));
    if (sent_.empty() && done > 0)
        limit_ = lanes_.releasing() == 0 ? kMaxInFlight : std::min(kMaxInFlight, limit_ * 2);
    if (refused_)
    {
        refused_ = false;
        noting_refusal_ = true;
        note_refusal(refused_row_, tables, refusal_, policy);
    }
}

} // namespace outbox
