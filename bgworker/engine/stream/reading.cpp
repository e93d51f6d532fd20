#include "reading.h"

#include <algorithm>

namespace outbox
{

namespace
{

// Bounds of one transaction.
constexpr int kEventsPerStep = 2048;
constexpr long kStepMs = 20;

// Windows in flight; with more, reading waits although there is room for events.
constexpr std::size_t kMaxWindows = 1024;

} // namespace

void
Reading::start(const StoredPosition &stored, const StoredBacklog &backlog)
{
    window_.start(stored.position, progress_);
    backlog_.start(backlog);
}

bool
Reading::may_read(bool look) noexcept
{
    crowded_ = crowded_ && !progress_.has_ample_room(max_bytes_);
    if (window_.is_open())
        return window_.needs_scan() || !crowded_;
    return look && progress_.windows() < kMaxWindows;
}

bool
Reading::was_all_read() const noexcept
{
    const std::int64_t last = rows_at_start_.last();
    const EventKey *key = window_.next();
    return last == kLowestSeq ||
           (window_.looks() > 0 && (!window_.is_open() || (key != nullptr && key->seq > last)));
}

std::uint64_t
Reading::backlog_base() const noexcept
{
    return backlog_.base(progress_.acknowledged_prefix(), window_.remaining(),
                         progress_.behind_prefix());
}

StepResult
Reading::read(std::uint64_t mark, bool look, bool paused)
{
    const bool fresh = !window_.is_open();
    if (fresh && look)
        backlog_.open(mark, !window_.open(world_.source, progress_));
    if (!window_.is_open())
        return StepResult::idle;
    if (!window_.scan(world_.source))
    {
        backlog_.look();
        return StepResult::idle; // the process is to end
    }
    backlog_.looked();
    if (window_.next() != nullptr && !world_.source.is_safe_on_standbys())
        return StepResult::standby;
    if (!hand_over_some(paused))
        return StepResult::full;
    if (!window_.is_through())
        return StepResult::busy;
    window_.close(progress_);
    waiting_ = {};
    // What commits from now on is news. What committed while an older window was open, as in a
    // pause, was so before.
    return fresh ? StepResult::idle : StepResult::busy;
}

// Returns false when there is no room for the next event, or nothing to send it to.
bool
Reading::hand_over_some(bool paused)
{
    const Steady begun = world_.clock.steady();
    Steady now = begun;
    passage_.set_time(now);
    if (paused)
    {
        find_oldest_waiting();
        // A pause must not keep a window open that has nothing left: what comes next would not be
        // seen.
        return window_.next() == nullptr;
    }
    Passage::HandOver result = Passage::HandOver::done;
    for (int i = 0; i < kEventsPerStep && result == Passage::HandOver::done; i++)
    {
        const EventKey *key = window_.next();
        if (key == nullptr)
            break;
        result = hand_over(*key);
        if (result == Passage::HandOver::done)
            window_.drop_next();
        // A clock for each event would cost a hundredth of the time that it takes.
        if (i % 16 == 15)
            passage_.set_time(now = world_.clock.steady());
        if (i % 128 == 127 && has_passed(begun, now, kStepMs))
            break;
        if (passage_.looks_at_rows() && has_passed(begun, world_.clock.steady(), kStepMs))
            break;
    }
    return result == Passage::HandOver::done;
}

// While nothing may be handed over, nothing else looks at the next event.
void
Reading::find_oldest_waiting()
{
    Event event;
    for (int i = 0; i < kEventsPerStep && waiting_.since == 0 && window_.next() != nullptr; i++)
    {
        if (world_.source.fetch(*window_.next(), event))
            note_waiting(event);
        else
            window_.drop_next();
    }
}

// One that says of itself that it is from the future was emitted when it was read first, and not
// again each time.
void
Reading::note_waiting(const Event &event) noexcept
{
    const bool same = waiting_.since != 0 && waiting_.seq == event.numbers.seq &&
                      waiting_.xid == event.numbers.xid;
    const Time since = same ? std::min(waiting_.since, event.emitted_at) : event.emitted_at;
    waiting_ = {event.numbers.seq, event.numbers.xid, since};
}

// The event is neither in flight nor lost: outbox.deliveries has it.
void
Reading::set_aside(const Event &event, const EventKey &key) noexcept
{
    progress_.set_aside(progress_.add(event.numbers.seq, 0, event.emitted_at, key.locator));
}

Passage::HandOver
Reading::no_room() noexcept
{
    crowded_ = true;
    return Passage::HandOver::full;
}

Passage::HandOver
Reading::hand_over(const EventKey &key)
{
    Event event;
    if (!world_.source.fetch(key, event))
        return Passage::HandOver::done;
    note_waiting(event);
    if (!sink_.is_there())
        return Passage::HandOver::full;
    if (!progress_.has_room(0, max_bytes_))
        return no_room();
    // One that is read again after a start may have its row: with the place that it had then.
    if (!rows_at_start_.has(event))
    {
        const RouteChange::RowsOfKey rows = passage_.look_at_rows(event);
        if (rows != RouteChange::RowsOfKey::seen && !world_.source.fetch(key, event))
            return Passage::HandOver::done;
        const Lane lane = passage_.line_of(event, rows);
        if (lane == 0)
            return pass(key, event);
        aside_.set_aside_waiting(event, lane);
    }
    set_aside(event, key);
    return Passage::HandOver::done;
}

Passage::HandOver
Reading::pass(const EventKey &key, Event &event)
{
    Record record;
    Failure why;
    const bool built = world_.source.build(event, record, why);
    const std::size_t size = built ? size_in_flight(record) : 0;
    if (!progress_.has_room(size, max_bytes_))
        return no_room();
    const Memo memo = {{},
                       static_cast<std::uint32_t>(built ? size_of(record) : 0),
                       world_.tally.topic(event.topic)};
    const std::uint64_t tag =
        progress_.add(event.numbers.seq, size, event.emitted_at, key.locator, memo, key.xid);
    Passage::HandOver result = Passage::HandOver::full;
    try
    {
        result = passage_.hand_over(event, built ? &record : nullptr, why, tag);
    }
    catch (const DatabaseError &)
    {
        progress_.remove_last(); // its key is still there
        throw;
    }
    if (result == Passage::HandOver::full || result == Passage::HandOver::halted)
        progress_.remove_last();
    return result == Passage::HandOver::full ? no_room() : result;
}

} // namespace outbox
