#include "rows_at_start.h"

#include "bgworker/engine/mutant.h"

#include <algorithm>

namespace outbox
{

void
RowsAtStart::read()
{
    up_to_ = deliveries_.last_seq();
    if (last_ == kHighestSeq)
        last_ = up_to_;
}

bool
RowsAtStart::has(const Event &event) const
{
    return event.numbers.seq <= up_to_ && deliveries_.has_row(event) &&
           !OUTBOX_MUTANT(forgets_rows);
}

Lane
RowsAtStart::line_behind(const Event &event) const
{
    const Lane key = key_lane(event.topic, event.key);
    const std::int64_t seq = event.numbers.seq;
    if (seq <= last_ && lines_.wait_of(key) != Lines::Wait::none &&
        !OUTBOX_MUTANT(forgets_rows_behind) && deliveries_.has_behind(key, seq))
        return key;
    const auto found = keys_.find(key);
    if (found == keys_.end() || seq >= found->second.last ||
        OUTBOX_MUTANT(forgets_partitions_of_rows))
        return 0;
    const Lane lane = found->second.lane;
    return lines_.wait_of(lane) != Lines::Wait::none ? lane : 0;
}

// Returns whether nothing of the key was noted before.
bool
RowsAtStart::add(Lane key, Lane lane, const EventNumbers &numbers)
{
    if (ended_ || passed_.visible(static_cast<std::uint64_t>(numbers.xid)))
        return false;
    const auto [found, is_new] = keys_.try_emplace(key, Rows{lane, numbers.seq});
    Rows &rows = found->second;
    rows.last = std::max(rows.last, numbers.seq);
    if (lane == key)
        rows.lane = key; // those of the partition's follow as well
    return is_new;
}

} // namespace outbox
