// What the producer has and Kafka does not acknowledge, while other events are.
//
// A broker that hangs, or a leader that went away when records were queued, may keep them for
// minutes. They stay where they are: Kafka may have them already, and they go out in order when it
// answers. But they hold up the position, and so everybody who waits for it. So after a second they
// are set aside in outbox.deliveries as well, with the lane of their partition. From then on they
// are afloat: the row goes with the acknowledgement; if the producer gives them up, redelivery
// sends them.

#include "publisher.h"

#include "bgworker/guard.h"

#include <algorithm>
#include <unordered_set>

namespace outbox
{

namespace
{

constexpr int kStuckMs = 1000;

} // namespace

// No transaction.
void
Publisher::watch_stuck(TimestampTz now)
{
    if (backing_off() || progress_.in_flight() == 0 || progress_.first_tag() != first_tag_)
    {
        first_tag_ = progress_.first_tag();
        first_since_ = now;
        return;
    }
    // What nobody acknowledges may not fill the producer's queue.
    if (afloat_.size() > suspects_.capacity() / 2)
    {
        halt();
        producer_->purge();
        return;
    }
    if (!TimestampDifferenceExceeds(first_since_, now, kStuckMs))
        return;
    // When nothing gets through, it is Kafka.
    if (stream_heard_at_ > first_since_ && stuck_.empty())
        find_stuck(now);
}

// The first event in flight is the first of its partition, so nothing of that was acknowledged for
// long. Of the others those that something was acknowledged of are only slow.
void
Publisher::find_stuck(TimestampTz now)
{
    const TimestampTz limit = TimestampTzPlusMilliseconds(now, -kStuckMs);
    call_cpp(
        [&]
        {
            std::unordered_set<Lane> alive;
            std::unordered_set<Lane> stuck;
            progress_.visit(
                [&](std::uint64_t, const Memo &memo, bool acknowledged)
                {
                    if (acknowledged && memo.sent_at > limit)
                        alive.insert(memo.lane);
                });
            progress_.visit(
                [&](std::uint64_t, const Memo &memo, bool acknowledged)
                {
                    if (!acknowledged && memo.lane != 0 && memo.sent_at < limit &&
                        alive.count(memo.lane) == 0)
                        stuck.insert(memo.lane);
                });
            stuck_.assign(stuck.begin(), stuck.end());
            std::sort(stuck_.begin(), stuck_.end());
        });
    // Before the first is set aside: nothing new may overtake the rest.
    for (const Lane lane : stuck_)
        redelivery_.set_afloat(lane);
    stuck_end_ = progress_.next_tag();
    first_since_ = now;
}

// Returns true when there is more to do at once.
bool
Publisher::set_stuck_afloat(TimestampTz now)
{
    constexpr long kStepMs = 10;
    kafka::Failure why;
    kafka::describe(why, 0, "not acknowledged for %d ms while other events were", kStuckMs);
    why.cls = kafka::FailureClass::topic;
    strlcpy(why.name, "_TIMED_OUT", sizeof(why.name));
    for (std::uint64_t tag = progress_.first_tag(); tag < stuck_end_; tag++)
    {
        EventRow event;
        Progress::InFlight flight;
        if (!progress_.find(tag, flight) ||
            !std::binary_search(stuck_.begin(), stuck_.end(), flight.memo.lane))
            continue;
        if (fetch_again(tag, &event, &flight))
        {
            EventLine line;
            kafka::Failure unreadable; // redelivery tells of it
            (void) read_line(event, &line, &unreadable);
            const Lane partition = flight.memo.lane;
            const Lane lane = redelivery_.set_aside_stuck(event, line, why, partition, policy_);
            call_cpp([&] { afloat_[tag] = {flight.seq, lane, partition}; });
            redelivery_.set_afloat(lane);
            redelivery_.set_afloat(partition);
            (void) progress_.acknowledge(tag, false);
        }
        MemoryContextReset(event_context_);
        if (TimestampDifferenceExceeds(now, GetCurrentTimestamp(), kStepMs))
            return true;
    }
    for (const Lane lane : stuck_)
        redelivery_.landed(lane, 0, false);
    stuck_.clear();
    return false;
}

void
Publisher::land(std::uint64_t tag, bool was_published) noexcept
{
    const auto found = afloat_.find(tag);
    if (found == afloat_.end())
        return;
    const Afloat event = found->second;
    afloat_.erase(found);
    redelivery_.landed(event.lane, event.seq, was_published);
    redelivery_.landed(event.partition, event.seq, false);
    landed_ += was_published ? 1 : 0;
}

// With the producer.
void
Publisher::sink() noexcept
{
    while (!afloat_.empty())
        land(afloat_.begin()->first, false);
    for (const Lane lane : stuck_)
        redelivery_.landed(lane, 0, false);
    stuck_.clear();
}

} // namespace outbox
