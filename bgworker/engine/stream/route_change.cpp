#include "route_change.h"

#include "bgworker/engine/mutant.h"

#include <algorithm>

namespace outbox
{

bool
RouteChange::is_late(Steady now, bool awaiting) noexcept
{
    constexpr int kLongestMs = 1000;
    if (!awaiting)
        awaiting_since_ = {};
    else if (awaiting_since_.is_never())
        awaiting_since_ = now;
    return awaiting && has_passed(awaiting_since_, now, kLongestMs);
}

bool
RouteChange::load(Redelivery &redelivery)
{
    if (source_.load_routes() == RoutesRead::locked)
        return false;
    redelivery.forget_left();
    setting_changed_ = false;
    redelivery.rows_at_start().clear();
    moving_ = true;
    moved_ = true;
    moved_up_to_ = kLowestSeq;
    std::vector<Lane> lanes;
    deliveries_.waiting_lanes(lanes);
    lines_ = {lanes.begin(), lanes.end()};
    deliveries_.blocked_lanes(lanes);
    lines_.insert(lanes.begin(), lanes.end());
    more_lines_ = false;
    return true;
}

// The events whose topic is another one by the routes of now, a bounded number at a time: they are
// sent there, in order, before anything newer of their key, and those being retried start afresh.
// What has FAILED stays so, and what was discarded is left alone. A row that a person holds follows
// later, and until then the line that it belongs to is blocked: nothing overtakes it there, and it
// is not tried where it is.
void
RouteChange::move_some(Redelivery &redelivery)
{
    constexpr int kMovesAtOnce = 1024;
    std::vector<MovedRow> rows;
    moved_ = true;
    deliveries_.rows_behind(moved_up_to_, kMovesAtOnce, rows);
    for (const MovedRow &row : rows)
    {
        move(redelivery, row);
        moved_up_to_ = row.numbers.seq;
    }
    if (rows.size() == kMovesAtOnce)
        return;
    moving_ = std::exchange(more_lines_, false);
    moved_up_to_ = kLowestSeq;
    if (!moving_)
        lines_ = {};
}

// Other databases and 0.2 have other values for the same lanes.
bool
RouteChange::rename(const MovedRow &row, const Event &event, Lane key, Lane &lane)
{
    // The second fault would be put right here.
    if (event.topic != row.topic || OUTBOX_MUTANT(keeps_old_lanes) ||
        OUTBOX_MUTANT(loads_with_results))
        return true;
    lane = present_lane(row.lane, event.topic, event.key);
    if (lane == row.lane)
        return true;
    const bool renamed = deliveries_.rename_lane(row.numbers.seq, lane);
    if (!renamed || lane == key)
        more_lines_ = lines_.insert(key).second || more_lines_;
    return renamed;
}

void
RouteChange::move(Redelivery &redelivery, const MovedRow &row)
{
    Event event;
    Failure ignored; // it stays where it is, and is refused when it is sent
    if (!source_.find(row.numbers, event) || !source_.read_line(event, ignored))
        return;
    Lane lane = key_lane(event.topic, event.key);
    RowsAtStart &rows = redelivery.rows_at_start();
    Lane from = row.lane;
    bool moved = rename(row, event, lane, from);
    const bool elsewhere = moved && row.in_line && from != lane;
    if (event.topic != row.topic)
    {
        moved = deliveries_.move_to_topic(row.numbers.seq, event.topic, lane);
        more_lines_ = lines_.insert(lane).second || more_lines_;
    }
    else if (elsewhere && lines_.count(lane) > 0 && !OUTBOX_MUTANT(leaves_others))
        moved = deliveries_.move_to_lane(row.numbers.seq, lane);
    else if (elsewhere && from != topic_lane(event.topic))
        more_lines_ = rows.note(lane, from, row.numbers) || more_lines_;
    else if (elsewhere && rows.partition_of(lane) != 0 && !OUTBOX_MUTANT(leaves_topics_others))
    {
        lane = rows.partition_of(lane);
        moved = deliveries_.move_to_lane(row.numbers.seq, lane);
    }
    if (moved)
        redelivery.end_left(row.numbers.seq); // when the rows are gone through again
    if (moved || OUTBOX_MUTANT(forgets_left))
        return;
    // What is read again after a start and belongs before it goes there, too.
    if (lane == key_lane(event.topic, event.key) && !OUTBOX_MUTANT(reads_past_left))
        rows.note_left(lane, row.numbers);
    redelivery.leave(row.numbers, lane);
}

bool
RouteChange::has_left(const Redelivery &redelivery, Steady now) const noexcept
{
    constexpr int kLookMs = 100;
    return redelivery.has_left() && has_passed(left_looked_at_, now, kLookMs);
}

// When some could be moved, others can be as well, perhaps: redelivery waits for them now.
bool
RouteChange::move_left(Redelivery &redelivery, Steady now)
{
    constexpr std::size_t kAtOnce = 100;
    std::vector<LeftRows::Row> rows;
    redelivery.next_left(kAtOnce, rows);
    bool any = false;
    for (const LeftRows::Row &row : rows)
    {
        Event event;
        Failure ignored;
        if (source_.find(row.numbers, event) && source_.read_line(event, ignored) &&
            !deliveries_.move_to_topic(row.numbers.seq, event.topic, row.lane))
            continue;
        any = moved_ = true; // if it is rolled back, all begins anew
        redelivery.end_left(row.numbers.seq);
    }
    left_looked_at_ = any ? Steady() : now;
    return any;
}

} // namespace outbox
