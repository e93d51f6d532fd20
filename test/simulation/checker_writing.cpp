// What the relay writes down: it goes back on nothing, puts nothing off, and writes nothing for
// nothing. And what it may not do meanwhile.
#include "checker.h"

#include <algorithm>

namespace outbox::sim
{

namespace
{

// Whether all that one snapshot sees is seen by the other.
bool
sees_all_of(const XidSnapshot &later, const XidSnapshot &earlier)
{
    return later.xmax() >= earlier.xmax() &&
           std::none_of(later.running().begin(), later.running().end(),
                        [&](std::uint64_t xid) { return earlier.visible(xid); });
}

} // namespace

// What a crash has taken back, or a person has set, is where it begins again.
void
Checker::check_position()
{
    const PositionRow &now = store_->tables().position;
    const PositionRow &then = position_then_;
    const bool same = now.from == then.from;
    if (position_known_ &&
        (!sees_all_of(now.from, then.from) || (same && !sees_all_of(now.to, then.to)) ||
         (same && !(then.from == then.to) && now.last_seq < then.last_seq)))
        fail("back", "the position has gone back");
    position_then_ = now;
    position_known_ = true;
}

// What is acknowledged in order is written at least every so often, as all of it is repeated after
// a crash; and no more often than that is worth.
void
Checker::saves(std::size_t count, bool unsaved)
{
    constexpr Time kLatest = 700 * kMs;
    constexpr std::size_t kMost = 100; // a second
    const Time now = clock_.at();
    const bool saved = count != saves_;
    if (now - saves_counted_at_ > kSecond)
    {
        saves_counted_at_ = now;
        saves_then_ = count;
    }
    if (count > saves_then_ + kMost)
        fail("spins", "the position was written " + std::to_string(count - saves_then_) +
                          " times within a second");
    saves_ = count;
    save_fails_ = save_fails_ && !saved;
    const bool locked = database_->is_locked(Table::position);
    // The position before is known by a tick only, from now on.
    const bool just_ticked = tick_written_at_ != kNever && now - tick_written_at_ < 2 * kSecond;
    if (saved && !just_ticked && !tick_fails_ && !database_->is_locked(Table::ticks))
        fail("late", "the position was written, and no tick for long");
    if (!unsaved || saved || save_fails_ || locked)
        unsaved_since_ = now;
    if (!unsaved || !locked || save_fails_)
        kept_since_ = kNever;
    else if (kept_since_ == kNever)
        kept_since_ = now;
    if (now - std::max(unsaved_since_, undisturbed_since_) > kLatest + longest_round_)
        fail("late", "what was acknowledged is not in the position for long");
}

// For published_at, and for how long events are kept: of what it sees nothing waits.
void
Checker::ticked(const XidSnapshot &snapshot)
{
    if (tick_written_at_ != kNever && clock_.at() - tick_written_at_ < 7 * kSecond / 10)
        fail("spins", "ticks are written more often than once a second");
    tick_written_at_ = clock_.at();
    tick_fails_ = false;
    for (const int event : pending_)
    {
        const EventRow &row = database_->row(event);
        if (snapshot.visible(row.xid) && store_->tables().deliveries().count(row.seq) == 0)
            fail("lost", "a tick says that event " + std::to_string(event) +
                             " is published, which is neither in Kafka nor in outbox.deliveries");
    }
}

// What is in outbox.deliveries is counted apart. Events that are not taken, or were rolled back,
// may be counted until they are met, or while what the process before has read is gone through.
void
Checker::backlog(std::int64_t waiting)
{
    waiting_ = waiting;
    if (!is_tick_due())
        return;
    const auto &deliveries = store_->tables().deliveries();
    const auto least =
        std::count_if(pending_.begin(), pending_.end(),
                      [&](int event) { return deliveries.count(database_->row(event).seq) == 0; });
    if (waiting == least)
        return;
    std::int64_t most = 0;
    for (std::size_t event = 0; event < facts_.size(); event++)
    {
        const Fact &fact = facts_[event];
        const bool passed = is_covered(database_->row(static_cast<int>(event)));
        most += passed && fact.taken && !fact.gone ? 0 : 1;
    }
    if (waiting < least || waiting > most)
        fail("backlog", std::to_string(waiting) + " events are shown as waiting, and " +
                            std::to_string(least) + " to " + std::to_string(most) + " do");
}

void
Checker::counted(const char *what, std::size_t counted, std::size_t right)
{
    if (counted != right)
        fail("counts", std::to_string(counted) + " events are counted as " + what +
                           ", and there were " + std::to_string(right));
}

// Something is given to a sink.
void
Checker::check_may_send(const std::string &name)
{
    constexpr Time kUntilHeard = kSecond;
    if (store_->tables().paused)
        fail("paused", name + " is handed over, and the relay is paused");
    if (left_)
        fail("called", name + " is handed over, and the destination asks never to be called again");
    if (kept_since_ != kNever && clock_.at() - kept_since_ > kUntilHeard)
        fail("late", name + " is handed over, and what came before it cannot be written down");
}

// The end of a relay in order: of what was acknowledged nothing is left to be sent again. It has
// come to the end of its windows when nothing that has committed is unheard of.
void
Checker::check_written()
{
    const auto &deliveries = store_->tables().deliveries();
    for (const auto &[seq, row] : deliveries)
        if (facts_[static_cast<std::size_t>(row.event)].heard && store_->may_change(seq) &&
            row.state != DeliveryState::discarded)
            fail("repeated", "event " + std::to_string(row.event) +
                                 " was acknowledged, and its row is left to be sent again");
    int uncovered = -1;
    for (std::size_t event = 0; event < facts_.size(); event++)
    {
        const Fact &fact = facts_[event];
        const EventRow &row = database_->row(static_cast<int>(event));
        if (!fact.committed || fact.gone || !fact.taken || fact.removed || is_covered(row))
            continue;
        if (!fact.heard)
            return;
        uncovered = static_cast<int>(event);
    }
    if (uncovered >= 0)
        fail("repeated", "event " + std::to_string(uncovered) +
                             " was acknowledged, and the position is written without it");
}

} // namespace outbox::sim
