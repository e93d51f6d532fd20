#include "progress.h"

#include "bgworker/engine/mutant.h"

#include <cassert>
#include <utility>

namespace outbox
{

Progress::Progress(std::size_t max_events) : ring_(max_events == 0 ? 1 : max_events)
{
    aside_.reserve(ring_.size());
}

void
Progress::reset(const Position &position)
{
    XidSnapshot from = position.from;
    std::deque<Window> windows;
    if (!(position.to == position.from))
        windows.push_back({position.to, tail_, false});
    from_ = std::move(from);
    windows_ = std::move(windows);
    last_seq_ = windows_.empty() || OUTBOX_MUTANT(forgets_last_seq) ? 0 : position.last_seq;
    forgotten_ += tail_ - head_;
    head_ = tail_;
    in_flight_ = 0;
    bytes_ = 0;
    aside_.clear();
}

void
Progress::open_window(const XidSnapshot &to)
{
    // A window without events is only a longer way to the next one.
    if (!windows_.empty() && windows_.back().closed && windows_.back().first == tail_)
    {
        XidSnapshot copy = to;
        windows_.back().to = std::move(copy);
        windows_.back().closed = false;
        return;
    }
    windows_.push_back({to, tail_, false});
}

void
Progress::close_window() noexcept
{
    assert(!windows_.empty());
    windows_.back().closed = true;
    retire_windows();
}

bool
Progress::has_room(std::size_t bytes, std::size_t max_bytes) const noexcept
{
    if (behind_prefix() == 0)
        return true;
    return behind_prefix() < ring_.size() &&
           (OUTBOX_MUTANT(exceeds_bytes) ? bytes_ : bytes_ + bytes) <= max_bytes;
}

bool
Progress::has_ample_room(std::size_t max_bytes) const noexcept
{
    return behind_prefix() <= ring_.size() / 4 * 3 && bytes_ <= max_bytes / 4 * 3;
}

std::uint64_t
Progress::add(std::int64_t seq, std::size_t bytes, std::int64_t created_at, std::uint64_t locator,
              const Memo &memo, std::uint64_t xid) noexcept
{
    assert(behind_prefix() < ring_.size());
    assert(!windows_.empty() && !windows_.back().closed);
    at(tail_) = {seq,   created_at, locator, xid, static_cast<std::uint32_t>(bytes),
                 false, false,      false,   memo};
    in_flight_++;
    bytes_ += bytes;
    return tail_++;
}

void
Progress::remove_last() noexcept
{
    assert(tail_ > head_ && !at(tail_ - 1).acknowledged);
    tail_--;
    in_flight_--;
    bytes_ -= at(tail_).bytes;
}

bool
Progress::find(std::uint64_t tag, InFlight &event) const noexcept
{
    if (tag < head_ || tag >= tail_ || at(tag).acknowledged || at(tag).aside)
        return false;
    event = {at(tag).seq, at(tag).locator, at(tag).xid, at(tag).memo};
    return true;
}

bool
Progress::acknowledge(std::uint64_t tag, bool published, Acknowledged *event, Steady time) noexcept
{
    if (tag < head_ || tag >= tail_ || at(tag).acknowledged)
        return false;
    if (event != nullptr)
        *event = {at(tag).created_at, at(tag).memo};
    if (!time.is_never())
        at(tag).memo.sent_at = time;
    at(tag).acknowledged = true;
    at(tag).published = published;
    in_flight_--;
    bytes_ -= at(tag).bytes;
    if (tag == head_)
        advance();
    return true;
}

void
Progress::set_aside(std::uint64_t tag) noexcept
{
    if (tag < head_ || tag >= tail_ || at(tag).acknowledged || at(tag).aside)
        return;
    at(tag).aside = true;
    aside_.push_back(tag); // reserved: never more than are in flight
}

bool
Progress::settle_aside() noexcept
{
    const bool any = !aside_.empty();
    for (const std::uint64_t tag : aside_)
        (void) acknowledge(tag, false);
    aside_.clear();
    return any;
}

void
Progress::drop_aside() noexcept
{
    for (const std::uint64_t tag : aside_)
        at(tag).aside = false;
    aside_.clear();
}

void
Progress::set_sent(std::uint64_t tag, Steady time, std::uint64_t lane, std::uint64_t whole) noexcept
{
    if (tag < head_ || tag >= tail_ || at(tag).acknowledged)
        return;
    at(tag).memo.sent_at = time;
    at(tag).memo.lane = lane;
    at(tag).memo.whole = whole;
    at(tag).memo.queued = true;
}

void
Progress::set_unsent(std::uint64_t tag, Steady time) noexcept
{
    if (tag < head_ || tag >= tail_ || at(tag).acknowledged)
        return;
    at(tag).memo.sent_at = time;
    at(tag).memo.queued = false;
}

void
Progress::advance() noexcept
{
    while (head_ < tail_ && (at(head_).acknowledged || OUTBOX_MUTANT(position_before_ack)))
    {
        // The first window ends where the second begins.
        while (windows_.size() > 1 && windows_[1].first <= head_)
            retire_windows();
        last_seq_ = at(head_).seq;
        published_ += at(head_).published ? 1 : 0;
        head_++;
    }
    retire_windows();
}

// Drops windows of which everything is acknowledged.
void
Progress::retire_windows() noexcept
{
    while (!windows_.empty() && windows_.front().closed)
    {
        const std::uint64_t end = windows_.size() > 1 ? windows_[1].first : tail_;
        if (head_ < end)
            return;
        from_ = std::move(windows_.front().to);
        windows_.pop_front();
        last_seq_ = 0;
    }
}

Position
Progress::position() const
{
    if (windows_.empty())
        return {from_, from_, 0};
    return {from_, windows_.front().to, last_seq_};
}

std::int64_t
Progress::oldest_created_at() const noexcept
{
    return head_ == tail_ ? 0 : at(head_).created_at;
}

} // namespace outbox
