// That nothing stands still, and nobody works for nothing.
#include "checker.h"

#include <algorithm>

namespace outbox::sim
{

void
Checker::in_flight(std::size_t events, std::size_t most)
{
    if (events > most)
        fail("bounds", std::to_string(events) + " events are in flight, and only " +
                           std::to_string(most) + " may be");
}

void
Checker::in_flight_bytes(std::size_t events, std::size_t bytes, std::size_t most)
{
    if (events > 1 && bytes > most)
        fail("bounds", std::to_string(bytes) + " bytes are in flight, and only " +
                           std::to_string(most) + " may be");
    if (events == 0 && bytes > 0)
        fail("bounds", "nothing is in flight, and it has " + std::to_string(bytes) + " bytes");
}

void
Checker::turn(Time took)
{
    longest_round_ = std::max(longest_round_, took);
    if (took > kSecond)
        fail("stalled", "a turn of the relay took " + std::to_string(took / kMs) + " ms");
}

// Nothing waits, and nothing was wrong for a while.
bool
Checker::is_idle() const
{
    return store_ != nullptr && pending_.empty() && store_->tables().deliveries().empty() &&
           replays_done() && clock_.at() - undisturbed_since_ > kSecond;
}

void
Checker::rounds(std::size_t count)
{
    constexpr std::size_t kMost = 5000; // a second
    constexpr std::size_t kMostIdle = 500;
    const bool over = clock_.at() - counted_at_ > kSecond;
    idle_then_ = idle_then_ && is_idle();
    if (over && idle_then_ && count > rounds_then_ + kMostIdle)
        fail("spins", "the relay took " + std::to_string(count - rounds_then_) +
                          " turns within a second, and has nothing to do");
    if (over)
    {
        idle_then_ = true;
        counted_at_ = clock_.at();
        rounds_then_ = count;
    }
    if (count - rounds_then_ > kMost)
        fail("spins",
             "the relay took " + std::to_string(count - rounds_then_) + " turns within a second");
}

// A slow broker answers one request after the other, of each partition in turn; and what waits for
// that may be all that may be in flight.
Time
Checker::longest_turn() const
{
    std::map<int, Time> turns;
    for (const auto &item : cluster_->partitions())
        if (item.second.leader >= 0)
            turns[item.second.leader] += cluster_->broker(item.second.leader).slow_by;
    Time longest = 0;
    for (const auto &item : turns)
        longest = std::max(longest, item.second);
    return stall_ + longest;
}

// A producer that waits for all that it has sent is replaced when nothing was acknowledged for five
// seconds.
Time
Checker::longest_stall() const
{
    constexpr Time kDrains = 5 * kSecond;
    const Time longest = longest_turn();
    const bool drained =
        draining_ || (drained_at_ != kNever && clock_.at() - drained_at_ < longest);
    return longest + (drained ? kDrains : 0);
}

void
Checker::check_place(const Place &place, PlaceFacts &facts)
{
    const Time now = clock_.at();
    const Time well_since = cluster_->well_since(place);
    // What was sent to a leader that hung is given up by its client after a minute.
    constexpr Time kSocketTimeout = 61 * kSecond;
    const Time hung_at = cluster_->partition(place).hung_at;
    const bool hung = hung_at != 0 && now - hung_at < kSocketTimeout;
    facts.clean = facts.clean && facts.well_since == well_since && !hung;
    facts.well_since = well_since;
    if (well_since == kNever)
        return;
    bool any = false;
    for (const int event : pending_)
    {
        const EventRow &row = database_->row(event);
        if (!goes_to(place, row))
            continue;
        any = true;
        // What a person may have to settle, and what waits for that, has no limit.
        if (is_at_fault(row) || is_settled_by_person(row))
            continue;
        Fact &fact = facts_[static_cast<std::size_t>(event)];
        // Nobody waits for a person, and what one holds waits.
        if (waits_for_person(row))
            fact.settled_at = now;
        if (waits_for_pause(row))
            fact.paused_at = now;
        const Time since = std::max({fact.committed_at, fact.routed_at, fact.settled_at,
                                     undisturbed_since_, in_turn_ ? appended_at_ : 0});
        if (since > now)
            continue;
        // What was set aside waits for all that the stream had sent before.
        const bool set_aside = store_->tables().deliveries().count(row.seq) > 0;
        const Time went = std::max({facts.appended_at, facts.misdirected_until, fact.paused_at,
                                    set_aside ? slowly_appended_at_ : 0});
        const bool stalled =
            facts.clean && now - std::max({since, went, facts.well_since}) > longest_stall();
        const bool stuck =
            !hung && now - std::max({since, facts.well_since, facts.refused_at}) > patience_;
        if ((!stalled && !stuck) || waits_for_other(event))
            continue;
        if (stalled)
            fail("stalled", "nothing goes to partition " + std::to_string(place.partition) +
                                " of " + place.topic + ", which is well; event " +
                                std::to_string(event) + " waits");
        if (stuck)
            fail("stuck", "event " + std::to_string(event) + " does not go to partition " +
                              std::to_string(place.partition) + " of " + place.topic +
                              ", which has been well for long");
    }
    facts.clean = facts.clean || !any;
}

void
Checker::tick()
{
    if (!is_tick_due())
        return;
    ticked_at_ = clock_.at();
    if (store_ == nullptr)
        return;
    if (store_->tables().detached)
        disturbed(0);
    look_at_pauses();
    for (const auto &item : cluster_->partitions())
        check_place(item.first, places_[item.first]);
}

} // namespace outbox::sim
