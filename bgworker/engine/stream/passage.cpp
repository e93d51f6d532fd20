#include "passage.h"

#include "bgworker/engine/mutant.h"

#include "in_flight.h"

#include <algorithm>

namespace outbox
{

namespace
{

constexpr int kEventsPerStep = 2048;
constexpr long kStepMs = 10;

} // namespace

// What stops an event: earlier ones that are held, or a line. It is asked before the topic is
// looked at, and again as soon as the partition is known.
class Passage::Gate final : public PartitionGate
{
public:
    Gate(const Passage &owner, const Passing &passing) noexcept
        : owner_(owner), passing_(passing), whole_(topic_lane(passing.event.topic))
    {
    }

    // What is held goes first, whatever has become of its lane in the meantime: it will be set
    // aside before what comes after it. What waits for the topic came after what waits for its
    // partition or its key. But what was queued by other routes goes to the line of its key: what
    // came after it and was set aside has moved there.
    bool is_stopped() const noexcept
    {
        if (is_empty())
            return false;
        return is_behind_held(key()) || (passing_.from == 0 && is_behind_held(whole_)) ||
               (passing_.moved && is_behind(key())) ||
               (owner_.lines_.is_before(whole_, passing_.tag) && is_behind(whole_));
    }

    bool may_pass(std::int32_t partition) const noexcept override
    {
        partition_ = partition == kKeyIsPartition ? key() : partition_lane(whole_, partition);
        if (owner_.refusals_.is_waiting(partition_))
            return hold_for(partition_);
        if (is_empty())
            return true;
        return !is_behind_held(partition_) &&
               !is_behind(owner_.lines_.lane_of(whole_, partition_, key(), passing_.tag));
    }

    Lane whole() const noexcept { return whole_; }
    Lane partition() const noexcept { return partition_; }
    Lane stopped_by() const noexcept { return stopped_by_; }
    bool is_to_hold() const noexcept { return wait_ == Lines::Wait::hold; }

private:
    bool is_empty() const noexcept { return owner_.lines_.is_empty() && owner_.held_.is_empty(); }
    // Only when asked for: most events meet nothing that is held and no line.
    Lane key() const noexcept
    {
        if (key_ == 0)
            key_ = key_lane(passing_.event.topic, passing_.event.key);
        return key_;
    }
    bool is_behind_held(Lane lane) const noexcept
    {
        if (lane == passing_.from || !owner_.held_.has(lane) || OUTBOX_MUTANT(passes_held))
            return false;
        (void) hold_for(lane);
        return true;
    }
    bool hold_for(Lane lane) const noexcept
    {
        stopped_by_ = lane;
        wait_ = Lines::Wait::hold;
        return false;
    }
    bool is_behind(Lane lane) const noexcept
    {
        stopped_by_ = lane;
        wait_ = owner_.lines_.wait_of(lane);
        return wait_ != Lines::Wait::none;
    }

    const Passage &owner_;
    const Passing &passing_;
    const Lane whole_;
    mutable Lane key_ = 0;
    mutable Lane partition_ = 0;
    mutable Lane stopped_by_ = 0;
    mutable Lines::Wait wait_ = Lines::Wait::none;
};

RouteChange::RowsOfKey
Passage::look_at_rows(Event &event)
{
    Failure unreadable; // found again when it is built
    if (!routes_.is_moving())
        return RouteChange::RowsOfKey::seen;
    (void) world_.source.read_line(event, unreadable);
    return routes_.look_at(event.key);
}

// That of its topic, behind which it waits; but not its key's alone, as what waits behind the
// partition may be earlier events of it.
Lane
Passage::line_of(Event &event, RouteChange::RowsOfKey rows)
{
    Failure unreadable; // found again when it is built
    const bool many = rows == RouteChange::RowsOfKey::many;
    if (lines_.is_empty() && !many)
        return 0;
    if (!world_.source.read_line(event, unreadable) && !many)
        return 0;
    if (const Lane lane = routes_.line_behind(event, rows); lane != 0)
        return lane;
    if (const Lane lane = start_gate_.is_open() ? 0 : rows_at_start_.line_behind(event); lane != 0)
        return lane;
    const Lane whole = topic_lane(event.topic);
    return held_.is_empty() && lines_.wait_of(whole) == Lines::Wait::aside ? whole : 0;
}

// One that is held already stays where it is: what came later is held behind it. It may only go on
// to the partition's line, which is asked last but one by all, who find those there before it.
Passage::HandOver
Passage::hold(const Passing &passing, Lane lane, const Gate &gate, bool for_topic)
{
    if (passing.from != 0 && (lane == passing.from || lane != gate.partition()))
    {
        held_.set_for_topic(passing.from, for_topic);
        return HandOver::held;
    }
    held_.add(lane, passing.tag, for_topic);
    return HandOver::done;
}

Passage::HandOver
Passage::stop(const Passing &passing, const Gate &gate)
{
    return gate.is_to_hold() ? hold(passing, gate.stopped_by(), gate, false)
                             : set_aside(passing, gate.stopped_by());
}

Passage::HandOver
Passage::set_aside(const Passing &passing, Lane lane)
{
    aside_.set_aside_waiting(passing.event, lane);
    progress_.set_aside(passing.tag);
    return HandOver::done;
}

// no_leader: it is the partition that is refused.
Passage::HandOver
Passage::refuse(const Passing &passing, const Failure &why, Lane partition, bool no_leader)
{
    SettingAside::Refusal refusal = {why, no_leader ? partition : 0, true};
    refusal.partition = partition != 0 ? partition : passing.partition;
    refusal.tag = passing.tag;
    (void) aside_.refuse(passing.event, refusal, policy_);
    progress_.set_aside(passing.tag);
    return HandOver::done;
}

// What cannot be built is refused in its turn: earlier events of its key may be held, or wait.
Passage::HandOver
Passage::refuse_unbuilt(const Passing &passing)
{
    const Gate gate(*this, passing);
    if (!has_topic(passing.event) || (lines_.is_empty() && held_.is_empty()) ||
        OUTBOX_MUTANT(refuses_out_of_place))
        return refuse(passing, passing.why, 0, false);
    if (gate.is_stopped())
        return stop(passing, gate);
    Offer offer = {gate};
    Failure refused; // with its topic, of which the partition is not known: so in that's line
    switch (sink_->place(passing.event.topic, passing.event.key, offer, refused))
    {
    case ProduceResult::not_yet:
        return hold(passing, gate.whole(), gate, true);
    case ProduceResult::stopped:
        return stop(passing, gate);
    case ProduceResult::failed:
        return refuse(passing, refused, 0, false);
    default:
        return refuse(passing, passing.why, gate.partition(), false);
    }
}

// A sink says after a second that a topic is not there, but each new one asks anew; and refused
// records may end one sink after the other, while lines wait for what is held. So the time counts
// for all of them together, as long as the destination answers. It is shorter while others may have
// waited for something else before.
bool
Passage::is_unknown_for_long(Lane topic, Failure &why)
{
    struct Patience
    {
        int unknown_ms;
        int heard_ms; // of anything
    };
    constexpr Patience kUsual = {900, 1000};
    constexpr Patience kHurried = {500, 2000}; // a producer that ends may have heard nothing
    const Patience &patience = hurried_ && !OUTBOX_MUTANT(waits_for_topic_too) ? kHurried : kUsual;
    const Steady since = unknown_since_.try_emplace(topic, now_).first->second;
    if (sink_.is_backing_off() || !has_passed(since, now_, patience.unknown_ms) ||
        has_passed(reports_.heard_at(), now_, patience.heard_ms) || OUTBOX_MUTANT(asks_anew))
        return false;
    set_failure(why, FailureClass::topic, "UNKNOWN_TOPIC_OR_PART",
                "%s has not described the topic for %d ms", world_.destination.title(),
                patience.unknown_ms);
    return true;
}

Passage::HandOver
Passage::pass(const Passing &passing)
{
    return passing.record != nullptr ? pass_built(passing) : refuse_unbuilt(passing);
}

Passage::HandOver
Passage::pass_built(const Passing &passing)
{
    const Gate gate(*this, passing);
    if (gate.is_stopped())
        return stop(passing, gate);

    Offer offer = {gate};
    Failure why;
    passing.record->tag = passing.tag;
    ProduceResult result = sink_.offer(*passing.record, offer, why);
    if (result == ProduceResult::not_yet && !offer.no_leader)
        result = is_unknown_for_long(gate.whole(), why) ? ProduceResult::failed : result;
    else
        unknown_since_.erase(gate.whole());
    switch (result)
    {
    case ProduceResult::queued:
        progress_.set_sent(passing.tag, now_, gate.partition(), gate.whole());
        return HandOver::done;
    case ProduceResult::queue_full:
        return HandOver::full;
    case ProduceResult::not_yet:
        return hold(passing, offer.no_leader ? gate.partition() : gate.whole(), gate,
                    !offer.no_leader);
    case ProduceResult::stopped:
        return stop(passing, gate);
    case ProduceResult::failed:
        break;
    }
    if (why.cls == FailureClass::topic && OUTBOX_MUTANT(missing_topic_stalls))
        return HandOver::full;
    if (why.cls == FailureClass::event || why.cls == FailureClass::topic)
        return refuse(passing, why, gate.partition(), offer.no_leader);
    sink_.fail(why);
    return HandOver::halted;
}

Passage::HandOver
Passage::hand_over_again(std::uint64_t tag, Lane from)
{
    Event event;
    Progress::InFlight flight;
    if (!fetch_in_flight(world_.source, progress_, tag, event, flight))
        return HandOver::done;
    if (flight.memo.queued)
        return HandOver::done; // the sink has it
    const RouteChange::RowsOfKey rows = look_at_rows(event);
    if (rows != RouteChange::RowsOfKey::seen &&
        !fetch_in_flight(world_.source, progress_, tag, event, flight))
        return HandOver::done;
    Record record;
    Failure why;
    const bool built = world_.source.build(event, record, why);
    // By other routes it was in another topic's partition.
    const bool same = flight.memo.whole == topic_lane(event.topic);
    const Lane before = same && !OUTBOX_MUTANT(forgets_partition) ? flight.memo.lane : 0;
    const Passing passing = {event,  built ? &record : nullptr,      why, tag, from,
                             before, !same && flight.memo.whole != 0};
    if (const Lane lane = routes_.line_behind(event, rows); lane != 0)
        return set_aside(passing, lane);
    // As in line_of(): a change of routes during the start may have brought rows behind it.
    if (const Lane lane = start_gate_.is_open() || OUTBOX_MUTANT(hands_over_past_rows)
                              ? 0
                              : rows_at_start_.line_behind(event);
        lane != 0)
        return set_aside(passing, lane);
    return pass(passing);
}

Passage::HandOver
Passage::hand_over(Event &event, Record *record, const Failure &why, std::uint64_t tag)
{
    return pass({event, record, why, tag});
}

void
Passage::take_back(std::uint64_t tag, Lane partition)
{
    held_.take_back(partition, tag);
    held_.note_news();
}

void
Passage::begin_again() noexcept
{
    held_.clear();
    resend_next_ = progress_.first_tag();
    resend_end_ = progress_.next_tag();
}

void
Passage::resend(Steady now) noexcept
{
    progress_.visit(
        [&](std::uint64_t tag, const Memo &memo, bool done)
        {
            if (done)
                return;
            if (memo.queued)
                world_.tally.retried(memo.topic);
            progress_.set_unsent(tag, now);
        });
    begin_again();
    if (OUTBOX_MUTANT(rewind_skips))
        (void) progress_.acknowledge(progress_.first_tag(), true);
    // Topics were not asked for meanwhile.
    for (auto &topic : unknown_since_)
        topic.second.us += sink_.is_halted() ? now.us - sink_.halted_since().us : 0;
}

bool
Passage::resend_some(Steady now)
{
    resend_next_ = std::max(resend_next_, progress_.first_tag());
    for (int i = 0; i < kEventsPerStep && resend_next_ < resend_end_; i++)
    {
        const HandOver result = hand_over_again(resend_next_, 0);
        if (result != HandOver::done)
            return false;
        resend_next_++;
        if ((i % 64 == 63 || looks_at_rows()) && has_passed(now, world_.clock.steady(), kStepMs))
            return true;
    }
    resend_next_ = std::max(resend_next_, std::min(progress_.first_tag(), resend_end_));
    return resend_next_ < resend_end_;
}

bool
Passage::pass_held(Steady now)
{
    for (const Lane lane : held_.begin_look(now))
    {
        for (bool more = held_.has(lane); more;)
        {
            const HandOver result = hand_over_again(held_.first(lane), lane);
            if (result == HandOver::halted)
                return false;
            more = result == HandOver::done && held_.drop_first(lane);
            if (result == HandOver::full || has_passed(now, world_.clock.steady(), kStepMs))
            {
                held_.stop_look(lane, result == HandOver::done);
                return result != HandOver::full;
            }
        }
    }
    return false;
}

} // namespace outbox
