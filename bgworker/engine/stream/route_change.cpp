#include "route_change.h"

#include "bgworker/engine/mutant.h"

#include <algorithm>

namespace outbox
{

namespace
{

// New events wait for no more than this.
constexpr int kStepMs = 10;
#ifndef OUTBOX_MUTANTS
constexpr int most_rows_looked_at = 1024;
#endif

} // namespace

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
RouteChange::load()
{
    if (source_.load_routes() == RoutesRead::locked)
        return false;
    redelivery_.forget_left();
    if (setting_changed_)
        redelivery_.reload_lines();
    redelivery_.load_changes();
    redelivery_.lines().open_closing();
    setting_changed_ = false;
    moving_ = moved_ = true;
    moved_up_to_ = kLowestSeq;
    keys_ = {};
    lines_ = {};
    for (const auto &line : redelivery_.lines().all())
        lines_.insert(line.first);
    more_lines_ = false;
    return true;
}

// A bounded number at a time, and for a bounded time, as new events wait meanwhile.
void
RouteChange::move_some(Steady now)
{
    std::vector<MovedRow> rows;
    moved_ = true;
    deliveries_.rows_behind(moved_up_to_, most_rows_looked_at, rows);
    for (std::size_t i = 0; i < rows.size(); i++)
    {
        move(rows[i]);
        moved_up_to_ = rows[i].numbers.seq;
        if (i % 16 == 15 && has_passed(now, clock_.steady(), kStepMs) &&
            !OUTBOX_MUTANT(waits_for_rows))
            return;
    }
    if (rows.size() == static_cast<std::size_t>(most_rows_looked_at))
        return;
    moving_ = std::exchange(more_lines_, false);
    moved_up_to_ = kLowestSeq;
    if (moving_)
        return;
    lines_ = {};
    keys_ = {};
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
    const bool is_new = !OUTBOX_MUTANT(forgets_new_lanes) && add_line(lane);
    redelivery_.lines().join(lane, row.numbers.seq);
    if (deliveries_.rename_lane(row.numbers.seq, lane))
    {
        more_lines_ = (is_new && lane == key) || more_lines_;
        return true;
    }
    more_lines_ = add_line(key) || more_lines_;
    return false;
}

// A key that was forgotten, as there were too many, is looked at again, and nothing moves.
RouteChange::RowsOfKey
RouteChange::look_at(std::string_view key)
{
    constexpr std::size_t kMostKeys = 16384;
    if (!moving_ || OUTBOX_MUTANT(passes_rows))
        return RowsOfKey::seen;
    const Lane hash = key_lane({}, key); // whoever emits chooses keys
    if (const auto known = keys_.find(hash); known != keys_.end())
        return known->second ? RowsOfKey::many : RowsOfKey::seen;
    const Steady begun = clock_.steady();
    std::vector<MovedRow> rows;
    deliveries_.rows_of_key(key, most_rows_looked_at, rows);
    if (keys_.size() >= kMostKeys)
        keys_.clear();
    bool &many = keys_[hash];
    many = rows.size() == static_cast<std::size_t>(most_rows_looked_at);
    moved_ = moved_ || !rows.empty();
    for (std::size_t i = 0; i < rows.size() && !many; i++)
    {
        move(rows[i]);
        many = i + 1 < rows.size() && has_passed(begun, clock_.steady(), kStepMs);
    }
    many = many && !OUTBOX_MUTANT(passes_many_rows);
    return many ? RowsOfKey::many : rows.empty() ? RowsOfKey::seen : RowsOfKey::read;
}

// All of its rows come before it, and will be in that line, too.
Lane
RouteChange::line_behind_many(const Event &event)
{
    const Lane lane = key_lane(event.topic, event.key);
    moved_ = true;
    more_lines_ = add_line(lane) || more_lines_;
    return lane;
}

// Returns whether it is new.
bool
RouteChange::add_line(Lane lane)
{
    Lines &lines = redelivery_.lines();
    if (lines.is_clear(lane))
        lines.release(lane);
    return lines_.insert(lane).second;
}

bool
RouteChange::move_to_lane(const MovedRow &row, Lane lane)
{
    redelivery_.lines().join(lane, row.numbers.seq);
    return deliveries_.move_to_lane(row.numbers.seq, lane);
}

// An event whose topic is another one by the routes of now is sent there, in order, before anything
// newer of its key, and if it is being retried that starts afresh. What has FAILED stays so, and
// what was discarded is left alone. A row that a person holds follows later, and until then the
// line that it belongs to is blocked: nothing overtakes it there, and it is not tried where it is.
void
RouteChange::move(const MovedRow &row)
{
    Event event;
    Failure ignored; // it stays where it is, and is refused when it is sent
    if (!source_.find(row.numbers, event) || !source_.read_line(event, ignored))
        return;
    Lane lane = key_lane(event.topic, event.key);
    RowsAtStart &rows = redelivery_.rows_at_start();
    Lane from = row.lane;
    bool moved = rename(row, event, lane, from);
    const bool elsewhere = moved && row.in_line && from != lane;
    if (event.topic != row.topic)
    {
        moved = deliveries_.move_to_topic(row.numbers.seq, event.topic, lane);
        more_lines_ = add_line(lane) || more_lines_;
        redelivery_.lines().join(lane, row.numbers.seq);
    }
    else if (elsewhere && lines_.count(lane) > 0 && !OUTBOX_MUTANT(leaves_others))
        moved = move_to_lane(row, lane);
    else if (elsewhere && from != topic_lane(event.topic))
        more_lines_ = rows.note(lane, from, row.numbers) || more_lines_;
    else if (elsewhere && rows.partition_of(lane) != 0 && !OUTBOX_MUTANT(leaves_topics_others))
    {
        lane = rows.partition_of(lane);
        moved = move_to_lane(row, lane);
    }
    if (moved)
        redelivery_.end_left(row.numbers.seq); // when the rows are gone through again
    if (moved || OUTBOX_MUTANT(forgets_left))
        return;
    // What is read again after a start and belongs before it goes there, too.
    if (lane == key_lane(event.topic, event.key) && !OUTBOX_MUTANT(reads_past_left))
        rows.note_left(lane, row.numbers);
    redelivery_.leave(row.numbers, lane);
}

bool
RouteChange::has_left(Steady now) const noexcept
{
    constexpr int kLookMs = 100;
    return redelivery_.has_left() && has_passed(left_looked_at_, now, kLookMs);
}

// When some could be moved, others can be as well, perhaps: redelivery waits for them now.
bool
RouteChange::move_left(Steady now)
{
    constexpr std::size_t kAtOnce = 100;
    std::vector<LeftRows::Row> rows;
    redelivery_.next_left(kAtOnce, rows);
    bool any = false;
    for (const LeftRows::Row &row : rows)
    {
        Event event;
        Failure ignored;
        if (source_.find(row.numbers, event) && source_.read_line(event, ignored) &&
            !deliveries_.move_to_topic(row.numbers.seq, event.topic, row.lane))
            continue;
        any = moved_ = true; // if it is rolled back, all begins anew
        redelivery_.end_left(row.numbers.seq);
    }
    left_looked_at_ = any ? Steady() : now;
    return any;
}

} // namespace outbox
