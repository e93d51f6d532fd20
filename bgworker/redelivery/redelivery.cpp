#include "bgworker/core/backoff.h"
#include "bgworker/core/sooner.h"

#include "redelivery.h"

#include "bgworker/guard.h"

#include <utility>

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

Redelivery::Redelivery(Stats &stats) : stats_(stats), sent_(kMaxInFlight)
{
    for (std::size_t slot = kMaxInFlight; slot > 0; slot--)
        free_.push_back(static_cast<std::uint16_t>(slot - 1));
    delivered_.reserve(kMaxInFlight);
    look_at_.reserve(kMaxInFlight);
    revived_.reserve(kMaxInFlight);
    refused_.reserve(kMaxInFlight);
}

void
Redelivery::use(const KafkaSetup *setup, int wake_fd) noexcept
{
    setup_ = setup;
    wake_fd_ = wake_fd;
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
                if (lane.second.state == Lanes::State::blocked && lane.second.afloat == 0)
                    known.push_back(lane.first);
            for (const Lane lane : known)
                lanes_.release(lane);
            for (const Lane lane : scratch_)
                lanes_.block(lane);
        });
    if (reload_lines_)
        load_lines();
    paused_ = is_paused();
    look_at_.clear();
    reload_ = false;
    find_due_ = true;
    stirred_ = true;
}

void
Redelivery::load_lines()
{
    settled_up_to_ = last_settled_seq();
    if (last_at_start_ == PG_INT64_MAX)
        last_at_start_ = last_seq();
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

// The head of some lanes was published: does another one block them?
void
Redelivery::look_at_lanes()
{
    for (const Lane lane : look_at_)
    {
        const Line *line = lanes_.find(lane);
        if (line == nullptr || line->state != Lanes::State::blocked || line->afloat > 0)
            continue;
        if (!is_lane_blocked(lane))
            call_cpp([&] { lanes_.release(lane); });
    }
    look_at_.clear();
}

bool
Redelivery::has_work(TimestampTz now) const noexcept
{
    return stirred_ || reload_ ||
           (due_at_ != 0 && !paused_ && Max(due_at_, not_due_before_) <= now);
}

long
Redelivery::wait_ms(TimestampTz now) const noexcept
{
    constexpr long kStreamMs = 20;
    if (has_work(now))
        return 0;
    long wait = producer_ ? producer_->serve_within_ms() : -1;
    if (paused_)
        return wait;
    if (due_at_ != 0)
        wait = sooner(wait,
                      Max(1L, TimestampDifferenceMilliseconds(now, Max(due_at_, not_due_before_))));
    if (waits_for_stream_ || (lanes_.releasing() > 0 && in_flight() < kMaxInFlight))
        wait = sooner(wait, kStreamMs);
    return wait;
}

void
Redelivery::set_afloat(Lane lane)
{
    call_cpp(
        [&]
        {
            const std::size_t most = 2 * kMaxInFlight + afloat_ + 1;
            if (delivered_.capacity() < most)
                delivered_.reserve(2 * most);
            if (look_at_.capacity() < most)
                look_at_.reserve(2 * most);
            lanes_.block(lane);
        });
    afloat_++;
    lanes_.find(lane)->afloat++;
}

// The first of a partition is the head of its line, and says what is wrong.
Lane
Redelivery::set_aside_stuck(const EventRow &event, const EventLine &line,
                            const kafka::Failure &failure, Lane partition,
                            const FailurePolicy &policy)
{
    for (const Lane other : {topic_lane(line.topic), key_lane(line.topic, line.key)})
        if (wait_of(other) != Wait::none)
        {
            park(event, line, other);
            return other;
        }
    const Line *known = lanes_.find(partition);
    if (known != nullptr && known->afloat > 1)
        park(event, line, partition);
    else
        (void) refuse(event, line, {failure, partition, false}, policy);
    return partition;
}

void
Redelivery::isolate(Lane lane, std::size_t suspects, std::uint64_t barrier)
{
    const bool known = lanes_.state(lane) != Lanes::State::clear;
    if (!known)
        call_cpp([&] { lanes_.release(lane, barrier); });
    Line *line = lanes_.find(lane);
    line->isolating = true;
    line->group =
        static_cast<std::uint32_t>(std::clamp<std::size_t>(suspects / 2, 1, Line::kWholeGroup / 2));
    stirred_ = true;
}

bool
Redelivery::is_settled(std::int64_t seq) const
{
    return seq <= settled_up_to_ && has_settled_row(seq);
}

// The lane in which an event of the stream has to wait, if there is one; 0: there is none.
Lane
Redelivery::lane_of(const EventLine &line, Lane partition) const noexcept
{
    for (const Lane lane : {topic_lane(line.topic), partition, key_lane(line.topic, line.key)})
        if (wait_of(lane) != Wait::none)
            return lane;
    return 0;
}

void
Redelivery::suspect(const EventRow &event, const EventLine &line, Lane lane)
{
    const Lane other = lane_of(line, lane);
    park(event, line, other != 0 ? other : lane);
}

Lane
Redelivery::refuse(const EventRow &event, const EventLine &line, const Refusal &refusal,
                   const FailurePolicy &policy)
{
    const std::uint16_t counted_as = stats_.topic(line.topic);
    stats_.refused(counted_as);
    // What is refused as a whole is retried for ever: its events are not at fault.
    const kafka::Failure &failure = refusal.failure;
    const bool whole = failure.cls == kafka::FailureClass::topic;
    const Lane lane = !whole              ? key_lane(line.topic, line.key)
                      : refusal.lane != 0 ? refusal.lane
                                          : topic_lane(line.topic);
    const bool blocking = whole || blocks_key(line, policy.block);
    const Lane behind = refusal.from_stream ? lane_of(line, refusal.lane) : 0;
    stirred_ = true;
    if (behind != 0)
    {
        park(event, line, behind);
        return behind;
    }
    const ParkedEvent parked = {event.seq, event.xid,  event.slot, &event.id,
                                lane,      line.topic, line.key};
    const int attempts = refusal.attempts_before + 1;
    const bool given_up =
        park_refused(parked, failure, blocking, next_attempt_after(attempts, policy),
                     whole ? 0 : policy.max_attempts);
    if (given_up)
        stats_.failed(counted_as);
    if (given_up || (whole && refusal.attempts_before == 0))
        tell_refusal(parked, failure, given_up, blocking);
    if (blocking)
        call_cpp([&] { lanes_.block(lane, refusal.barrier); });
    find_due_ = true;
    return lane;
}

void
Redelivery::park(const EventRow &event, const EventLine &line, Lane lane)
{
    park_waiting({event.seq, event.xid, event.slot, &event.id, lane, line.topic, line.key});
    stirred_ = true;
}

} // namespace outbox
