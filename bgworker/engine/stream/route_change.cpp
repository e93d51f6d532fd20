#include "route_change.h"

#include "bgworker/engine/mutant.h"

#include <algorithm>

namespace outbox
{

namespace
{

// New events wait for no more than this.
constexpr int kStepMs = 10;
constexpr std::int64_t kMostLooksUs = std::int64_t{1000} * kStepMs;
constexpr std::int64_t kLooksUs = TokenBucket::kSecondUs / 4; // a second
#ifndef OUTBOX_MUTANTS
constexpr int most_rows_looked_at = 1024;
#endif

std::size_t
most_keys() noexcept
{
    return 16 * static_cast<std::size_t>(most_rows_looked_at);
}

} // namespace

void
RouteChange::note_awaiting(Steady now, bool awaiting) noexcept
{
    if (!awaiting)
        awaiting_since_ = {};
    else if (awaiting_since_.is_never())
        awaiting_since_ = now;
}

bool
RouteChange::is_late(Steady now) const noexcept
{
    constexpr int kLongestMs = 1000;
    return !awaiting_since_.is_never() && has_passed(awaiting_since_, now, kLongestMs);
}

bool
RouteChange::load()
{
    if (source_.load_routes() == RoutesRead::locked)
        return false;
    redelivery_.forget_left();
    end_gathering();
    if (setting_changed_)
        redelivery_.reload_lines();
    redelivery_.load_changes();
    redelivery_.lines().open_closing();
    setting_changed_ = false;
    moving_ = moved_ = true;
    up_to_ = kLowestSeq;
    again_ = false;
    keys_ = {};
    lines_ = {};
    for (const auto &line : redelivery_.lines().all())
        lines_.insert(line.first);
    looks_.configure(kLooksUs, clock_.steady().us, kMostLooksUs);
    return true;
}

// For a bounded time, as new events wait meanwhile.
void
RouteChange::look_at_some()
{
    const Steady begun = clock_.steady();
    moved_ = true;
    if (moving_)
        look_at_all(begun);
    if (!moving_)
        gather_some(begun);
}

void
RouteChange::look_at_all(Steady begun)
{
    std::vector<MovedRow> rows;
    deliveries_.rows_behind(up_to_, most_rows_looked_at, rows);
    const std::size_t looked_at = look_at(rows, begun);
    if (looked_at > 0)
        up_to_ = rows[looked_at - 1].numbers.seq;
    if (looked_at < rows.size() || rows.size() == static_cast<std::size_t>(most_rows_looked_at))
        return;
    if (again_)
    {
        up_to_ = kLowestSeq;
        again_ = false;
        end_gathering(); // those rows follow as all do
        return;
    }
    moving_ = false;
    lines_ = {};
    keys_ = {};
}

std::size_t
RouteChange::look_at(const std::vector<MovedRow> &rows, Steady begun)
{
    for (std::size_t i = 0; i < rows.size(); i++)
    {
        if (i > 0 && has_passed(begun, clock_.steady(), kStepMs) && !OUTBOX_MUTANT(waits_for_rows))
            return i;
        moved_ = true;
        again_ = move(rows[i]) || again_;
    }
    return rows.size();
}

void
RouteChange::gather(Lane lane, const EventNumbers &event)
{
    gathered_.emplace(lane, Gathered{event});
    waits_ = false;
    if (!OUTBOX_MUTANT(releases_ungathered))
        redelivery_.set_afloat(lane);
}

void
RouteChange::end_gathering() noexcept
{
    for (const auto &item : gathered_)
        redelivery_.land(item.first, 0, false);
    gathered_.clear();
    waits_ = false;
}

// One line after the other.
void
RouteChange::gather_some(Steady begun)
{
    under_way_ = redelivery_.under_way();
    waits_ = false;
    for (auto next = gathered_.begin(); next != gathered_.end() && !setting_changed_;)
    {
        const Gathering gathering = gather_rows(next->first, next->second, begun);
        if (gathering == Gathering::done)
        {
            redelivery_.land(next->first, 0, false);
            next = gathered_.erase(next);
        }
        else if (gathering == Gathering::waits)
            ++next;
        if (has_passed(begun, clock_.steady(), kStepMs))
            return;
    }
    waits_ = !setting_changed_;
}

// They are found by the index, whatever their number.
RouteChange::Gathering
RouteChange::gather_rows(Lane lane, Gathered &gathered, Steady begun)
{
    Event event;
    Failure ignored;
    if (!source_.find(gathered.event, event) || !source_.read_line(event, ignored))
    {
        setting_changed_ = true; // it was taken away by hand: all begins anew
        return Gathering::more;
    }
    std::vector<MovedRow> rows;
    deliveries_.rows_of_key(event.key, gathered.up_to, most_rows_looked_at, rows);
    for (std::size_t i = 0; i < rows.size(); i++)
    {
        const std::int64_t seq = rows[i].numbers.seq;
        if (i > 0 && has_passed(begun, clock_.steady(), kStepMs))
            return Gathering::more;
        if (std::binary_search(under_way_.begin(), under_way_.end(), seq) && rows[i].lane != lane &&
            !OUTBOX_MUTANT(gathers_under_way))
            return Gathering::waits;
        gather(rows[i], lane);
        gathered.up_to = seq;
    }
    return rows.size() < static_cast<std::size_t>(most_rows_looked_at) ? Gathering::done
                                                                       : Gathering::more;
}

// All have been looked at by the routes of now. What still has another topic is a person's, and is
// to follow anyway.
void
RouteChange::gather(const MovedRow &row, Lane lane)
{
    Event event;
    Failure ignored;
    if (!row.in_line || row.lane == lane || OUTBOX_MUTANT(leaves_many) ||
        !source_.find(row.numbers, event) || !source_.read_line(event, ignored) ||
        event.topic != row.topic || key_lane(event.topic, event.key) != lane)
        return;
    if (!move_to_lane(row, lane))
    {
        redelivery_.leave({row.numbers, row.lane, lane});
        return;
    }
    redelivery_.end_left(row.numbers.seq);
    redelivery_.lines().recheck(row.lane); // it may have been what blocked that
}

// Other databases and 0.2 have other values for the same lanes.
bool
RouteChange::rename(const MovedRow &row, const Event &event, Lane key, Lane &lane, bool &line)
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
        line = is_new && lane == key;
        return true;
    }
    line = add_line(key);
    return false;
}

// A key that was forgotten, as there were too many, is looked at again, and nothing moves. That one
// has no rows is asked for each, whatever time is left: nothing else lets it pass.
RouteChange::RowsOfKey
RouteChange::look_at(std::string_view key)
{
    if (!moving_ || OUTBOX_MUTANT(passes_rows))
        return RowsOfKey::seen;
    const Lane hash = key_lane({}, key); // whoever emits chooses keys
    if (const auto known = keys_.find(hash); known != keys_.end())
        return known->second;
    const Steady begun = clock_.steady();
    const bool may_look = looks_.available(begun.us) > 0 || OUTBOX_MUTANT(looks_without_limit);
    const RowsOfKey rows = look_at_key(key, may_look ? most_rows_looked_at : 1, begun);
    looks_.take(clock_.steady().us - begun.us);
    if (keys_.size() >= most_keys())
        keys_.clear();
    keys_[hash] = rows == RowsOfKey::many ? rows : RowsOfKey::seen;
    return OUTBOX_MUTANT(passes_many_rows) && rows == RowsOfKey::many ? RowsOfKey::read : rows;
}

RouteChange::RowsOfKey
RouteChange::look_at_key(std::string_view key, int most, Steady begun)
{
    std::vector<MovedRow> rows;
    deliveries_.rows_of_key(key, kLowestSeq, most, rows);
    if (rows.empty())
        return RowsOfKey::seen;
    const bool all = rows.size() < static_cast<std::size_t>(most);
    return all && look_at(rows, begun) == rows.size() ? RowsOfKey::read : RowsOfKey::many;
}

// If not all of them were looked at, all rows of its key come before it, and will be in its line.
Lane
RouteChange::line_behind(const Event &event, RowsOfKey rows)
{
    if (!has_rows())
        return 0;
    const Lane lane = key_lane(event.topic, event.key);
    if (!moving_)
        return gathered_.count(lane) > 0 ? lane : 0;
    if (rows != RowsOfKey::many && (lines_.count(lane) == 0 || OUTBOX_MUTANT(joins_wider_lines)))
        return 0;
    moved_ = true;
    if (add_line(lane))
        gather(lane, event.numbers);
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
bool
RouteChange::move(const MovedRow &row)
{
    Event event;
    Failure ignored; // it stays where it is, and is refused when it is sent
    if (!source_.find(row.numbers, event) || !source_.read_line(event, ignored))
        return false;
    Lane lane = key_lane(event.topic, event.key);
    bool line = false;
    RowsAtStart &rows = redelivery_.rows_at_start();
    Lane from = row.lane;
    bool moved = rename(row, event, lane, from, line);
    const bool elsewhere = moved && row.in_line && from != lane;
    if (event.topic != row.topic)
    {
        moved = deliveries_.move_to_topic(row.numbers.seq, event.topic, lane);
        line = add_line(lane) || line;
        redelivery_.lines().join(lane, row.numbers.seq);
    }
    else if (elsewhere && lines_.count(lane) > 0 && !OUTBOX_MUTANT(leaves_others))
        moved = move_to_lane(row, lane);
    else if (elsewhere && from != topic_lane(event.topic))
        line = rows.note(lane, from, row.numbers) || line;
    else if (elsewhere && rows.partition_of(lane) != 0 && !OUTBOX_MUTANT(leaves_topics_others))
    {
        lane = rows.partition_of(lane);
        moved = move_to_lane(row, lane);
    }
    if (moved)
        redelivery_.end_left(row.numbers.seq); // when the rows are gone through again
    if (moved || OUTBOX_MUTANT(forgets_left))
        return line;
    // What is read again after a start and belongs before it goes there, too.
    if (lane == key_lane(event.topic, event.key) && !OUTBOX_MUTANT(reads_past_left))
        rows.note_left(lane, row.numbers);
    redelivery_.leave({row.numbers, from, lane});
    return line;
}

bool
RouteChange::has_left(Steady now) const noexcept
{
    constexpr int kLookMs = 100;
    return redelivery_.has_left() && has_passed(left_looked_at_, now, kLookMs);
}

// When some could be moved, others can be as well, perhaps.
bool
RouteChange::move_left()
{
    const Steady begun = clock_.steady();
    bool any = false;
    for (std::size_t rows = redelivery_.left();
         rows > 0 && !has_passed(begun, clock_.steady(), kStepMs); rows--)
        any = follow(redelivery_.next_left()) || any;
    moved_ = moved_ || any; // if it is rolled back, all begins anew
    left_looked_at_ = any ? Steady() : begun;
    return any && (!redelivery_.has_left() || OUTBOX_MUTANT(reloads_for_some));
}

// False: a person holds it still.
bool
RouteChange::follow(const LeftRows::Row &row)
{
    Event event;
    Failure ignored;
    if (source_.find(row.numbers, event) && source_.read_line(event, ignored) &&
        !deliveries_.move_to_topic(row.numbers.seq, event.topic, row.lane))
        return false;
    redelivery_.followed(row);
    return true;
}

} // namespace outbox
