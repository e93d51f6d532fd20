#include "stuck.h"

#include "bgworker/engine/mutant.h"

#include "in_flight.h"

#include <algorithm>
#include <unordered_set>

namespace outbox
{

namespace
{

constexpr int kStuckMs = 1000;
constexpr int kQuietMs = 5000;

} // namespace

void
Stuck::watch(Steady now, bool failing, bool waited_for, Sink &sink)
{
    constexpr int kAskMs = 100;
    if (failing || progress_.in_flight() == 0)
    {
        first_tag_ = progress_.first_tag();
        first_since_ = watched_since_ = now;
        return;
    }
    if (progress_.first_tag() != first_tag_)
        note_first(now);
    // It may have been held first.
    Progress::InFlight first;
    if (progress_.find(first_tag_, first) && first.memo.queued && !OUTBOX_MUTANT(counts_while_held))
        first_since_ = std::max(first_since_, first.memo.sent_at);
    if (!has_passed(first_since_, now, patience_ms(now)))
        return;
    // When nothing gets through, it is the destination; when nothing else is on its way, only the
    // destination can tell.
    const bool heard = acknowledged_at_ > first_since_;
    const bool quiet =
        has_passed(first_since_, now, kQuietMs) && !OUTBOX_MUTANT(keeps_what_holds_up);
    const bool ask = (waited_for && !OUTBOX_MUTANT(full_is_never_stuck)) || quiet;
    if (partitions_.empty() && (heard || (ask && sink.reachable(kAskMs))))
        find(now, sink);
    else if (ask)
        first_since_ = now;
}

void
Stuck::restart_watch(Steady now, bool unanswered) noexcept
{
    const bool waited = progress_.in_flight() > 0 && !OUTBOX_MUTANT(waits_anew) &&
                        has_passed(first_since_, now, kStuckMs / 2);
    if ((unanswered || waited) && !OUTBOX_MUTANT(waits_twice))
        hurried_until_ = plus_ms(now, kStuckMs);
    first_since_ = watched_since_ = now;
    if (OUTBOX_MUTANT(waits_after_routes))
        hurried_until_ = {};
}

// What is set aside too soon costs a row, and is acknowledged all the same.
int
Stuck::patience_ms(Steady now) const noexcept
{
    constexpr int kHurriedMs = 250;
    return is_hurried(now) ? kHurriedMs : kStuckMs;
}

// A producer that has to count its records anew, as it has given one up, sends nothing until all
// that it has sent is answered, by a broker that hangs as well; and it takes no record that has no
// room beside what it has. The engine cannot see either.
bool
Stuck::holds_up_sink(Steady now, bool alone) const noexcept
{
    if (!has_passed(acknowledged_at_, now, kQuietMs) || OUTBOX_MUTANT(keeps_what_holds_up))
        return false;
    bool late = false;
    bool several = alone;
    for (const auto &item : afloat_)
    {
        late = late || has_passed(item.second.event.memo.sent_at, now, kQuietMs);
        several = several || item.second.partition != afloat_.begin()->second.partition;
    }
    return late && several;
}

// It may have waited for its turn for long, so it counts from now. But while something is afloat it
// has probably waited for that, and a second for each partition of a broker would add up.
void
Stuck::note_first(Steady now) noexcept
{
    Progress::InFlight first;
    first_tag_ = progress_.first_tag();
    first_since_ = now;
    if (!afloat_.empty() && progress_.find(first_tag_, first) && first.memo.queued &&
        !OUTBOX_MUTANT(stuck_one_by_one))
        first_since_ = std::max(first.memo.sent_at, watched_since_);
}

// The first event in flight is the first of its partition, so nothing of that was acknowledged for
// long. Of the others those that something was acknowledged of are only slow, and those of which
// the sink has begun nothing wait for their turn.
void
Stuck::find(Steady now, const Sink &sink)
{
    std::unordered_set<Lane> alive;
    std::unordered_set<Lane> begun;
    std::unordered_set<Lane> stuck;
    Progress::InFlight flight;
    const bool tells_begun = sink.visit_begun(patience_ms(now),
                                              [&](std::uint64_t tag)
                                              {
                                                  if (progress_.find(tag, flight) &&
                                                      !OUTBOX_MUTANT(takes_stuck_for_turn))
                                                      begun.insert(flight.memo.lane);
                                              });
    progress_.visit_published(
        [&](const Memo &memo)
        {
            if (!has_passed(memo.sent_at, now, kStuckMs))
                alive.insert(memo.lane);
        });
    progress_.visit(
        [&](std::uint64_t, const Memo &memo, bool done)
        {
            if (!done && memo.queued && alive.count(memo.lane) == 0 &&
                (!tells_begun || begun.count(memo.lane) > 0 ||
                 OUTBOX_MUTANT(takes_turn_for_stuck)) &&
                has_passed(memo.sent_at, now, patience_ms(now)))
                stuck.insert(memo.lane);
        });
    partitions_.assign(stuck.begin(), stuck.end());
    std::sort(partitions_.begin(), partitions_.end());
    // Before the first is set aside: nothing new may overtake the rest.
    for (const Lane lane : partitions_)
        redelivery_.set_afloat(lane);
    next_ = progress_.first_tag();
    end_ = progress_.next_tag();
    first_since_ = now;
    if (partitions_.empty())
        watched_since_ = now;
}

void
Stuck::set_aside(std::uint64_t tag, const Failure &why, const FailurePolicy &policy)
{
    Event event;
    Progress::InFlight flight;
    // One that the sink does not have, as it is still to be handed over again, is not afloat: it is
    // set aside when it is passed.
    if (!progress_.find(tag, flight) || (!flight.memo.queued && !OUTBOX_MUTANT(sinks_unqueued)) ||
        !std::binary_search(partitions_.begin(), partitions_.end(), flight.memo.lane) ||
        !fetch_in_flight(source_, progress_, tag, event, flight))
        return;
    Failure unreadable; // redelivery finds it again
    (void) source_.read_line(event, unreadable);
    const Lane partition = flight.memo.lane;
    const Lane lane =
        redelivery_.setting_aside().set_aside_stuck(event, why, partition, tag, policy);
    fresh_.push_back(tag);
    afloat_[tag] = {flight.seq, lane, partition, {event.emitted_at, flight.memo}};
    afloat_bytes_ += flight.memo.bytes;
    redelivery_.set_afloat(lane);
    redelivery_.set_afloat(partition);
    progress_.set_aside(tag);
}

bool
Stuck::set_some_aside(Steady now, const FailurePolicy &policy)
{
    constexpr long kStepMs = 10;
    Failure why;
    set_failure(why, FailureClass::topic, "_TIMED_OUT",
                "not acknowledged for %d ms while other events were", kStuckMs);
    if (OUTBOX_MUTANT(begins_slices_again))
        next_ = 0;
    for (next_ = std::max(next_, progress_.first_tag()); next_ < end_;)
    {
        set_aside(next_++, why, policy);
        if (has_passed(now, clock_.steady(), kStepMs))
            return true;
    }
    forget_partitions();
    return false;
}

void
Stuck::forget_partitions() noexcept
{
    for (const Lane lane : partitions_)
        redelivery_.land(lane, 0, false);
    partitions_.clear();
}

bool
Stuck::land(std::uint64_t tag, bool was_published, Acknowledged *event) noexcept
{
    const auto found = afloat_.find(tag);
    if (found == afloat_.end())
        return false;
    const Afloat afloat = found->second;
    afloat_.erase(found);
    afloat_bytes_ -= afloat.event.memo.bytes;
    if (event != nullptr)
        *event = afloat.event;
    redelivery_.land(afloat.lane, afloat.seq, was_published);
    redelivery_.land(afloat.partition, afloat.seq, false);
    landed_ += was_published ? 1 : 0;
    return true;
}

void
Stuck::rolled_back() noexcept
{
    for (const std::uint64_t tag : fresh_)
        (void) land(tag, false);
    fresh_.clear();
    next_ = 0;
}

void
Stuck::sink() noexcept
{
    while (!afloat_.empty())
        (void) land(afloat_.begin()->first, false);
    forget_partitions();
}

} // namespace outbox
